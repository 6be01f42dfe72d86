#include "server/limits.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/server/service_testing.h"

namespace lethe::server {
namespace {

using service::Fails;
using service::IsOk;
using service::kInvalid;
using service::TempDir;

constexpr uint64_t kGiB = uint64_t{1} << 30;

TEST(LimitsTest, BytesWithUnits) {
  for (const auto& [text, bytes] :
       std::vector<std::pair<std::string, uint64_t>>{{"0", 0},
                                                     {"1073741824", kGiB},
                                                     {"1KiB", 1024},
                                                     {"7K", 7 * 1024},
                                                     {"512MiB", kGiB / 2},
                                                     {"4G", 4 * kGiB},
                                                     {"2TiB", 2048 * kGiB},
                                                     {"16777215TiB", kGiB * 1024 * 16777215}}) {
    const auto parsed = ParseBytes("--x", text);
    ASSERT_THAT(parsed, IsOk()) << text;
    EXPECT_EQ(*parsed, bytes) << text;
  }
  for (const std::string bad : {"", "KiB", "1kib", "1KB", "-1", "1e9", "16777216TiB", "1 K"}) {
    EXPECT_THAT(ParseBytes("--x", bad), Fails(kInvalid, "--x")) << bad;
  }
}

TEST(LimitsTest, TheSoftLimitOnFilesIsRaised) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit low = before;
  low.rlim_cur = std::min<rlim_t>(before.rlim_max, 200);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  const uint64_t raised = RaiseOpenFiles();
  rlimit after{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &after), 0);
  EXPECT_EQ(after.rlim_max, before.rlim_max);
  EXPECT_EQ(raised, after.rlim_cur);
  EXPECT_EQ(raised, std::min<rlim_t>(before.rlim_max, 1 << 20));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(LimitsTest, MemoryIsThatOfTheSmallestGroup) {
  const uint64_t machine = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                           static_cast<uint64_t>(sysconf(_SC_PAGE_SIZE));
  TempDir folder;
  const std::string root = folder.path();
  const auto write = [&root](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text << "\n";
  };
  EXPECT_EQ(MemoryOfMachine(root), machine) << "no groups at all";
  write("/proc/self/cgroup", "0::/a/b");
  write("/sys/fs/cgroup/a/b/memory.max", "max");
  EXPECT_EQ(MemoryOfMachine(root), machine);
  write("/sys/fs/cgroup/a/memory.max", "1048576");
  EXPECT_EQ(MemoryOfMachine(root), 1048576u) << "of the group above";
  write("/sys/fs/cgroup/a/b/memory.max", "524288");
  EXPECT_EQ(MemoryOfMachine(root), 524288u);
  write("/proc/self/cgroup", "0::/");
  write("/sys/fs/cgroup/memory.max", "2097152");
  EXPECT_EQ(MemoryOfMachine(root), 2097152u) << "as a container sees its own";
  write("/proc/self/cgroup", "11:cpu,cpuacct:/x\n7:memory:/x\n0::/elsewhere");
  write("/sys/fs/cgroup/memory.max", "max");
  write("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4096000");
  EXPECT_EQ(MemoryOfMachine(root), 4096000u);
  EXPECT_LE(MemoryOfMachine(), machine);
  EXPECT_GT(MemoryOfMachine(), uint64_t{1} << 20);
}

TEST(LimitsTest, NonsenseIsRefusedAndDefaultsFitTheMachine) {
  const auto usual = TenantLimits({}, {}, 1 << 20, 0, 8 * kGiB);
  ASSERT_THAT(usual, IsOk());
  EXPECT_EQ(usual->max_open, 1000u);
  EXPECT_EQ(usual->max_bytes, 4 * kGiB);
  const auto small = TenantLimits({}, {}, 1024, 0, kGiB);
  ASSERT_THAT(small, IsOk());
  EXPECT_EQ(small->max_open, 1024 / 2 / service::kDescriptorsPerTenant);
  EXPECT_EQ(TenantLimits({}, {}, 10, 0, 1024)->max_open, 1u);
  const auto given = TenantLimits(16, 2 * kGiB, 1024, 0, 8 * kGiB);
  ASSERT_THAT(given, IsOk());
  EXPECT_EQ(given->max_open, 16u);
  EXPECT_EQ(given->max_bytes, 2 * kGiB);

  EXPECT_THAT(TenantLimits(0, {}, 1024, 0, kGiB), Fails(kInvalid, "--max-open-tenants"));
  const auto many = TenantLimits(5000, {}, 1024, 0, kGiB);
  EXPECT_THAT(many, Fails(kInvalid, "--max-open-tenants"));
  EXPECT_NE(std::string(many.status().message()).find("give at most 110"), std::string::npos)
      << many.status();
  EXPECT_THAT(TenantLimits(110, {}, 1024, 0, kGiB), IsOk());
  EXPECT_THAT(TenantLimits(111, {}, 1024, 0, kGiB), Fails(kInvalid, "--max-open-tenants"));
  EXPECT_THAT(TenantLimits(1, {}, 100, 0, kGiB), Fails(kInvalid, "--max-open-tenants"));
  EXPECT_THAT(TenantLimits({}, 1024, 1024, 0, kGiB), Fails(kInvalid, "--memory-limit"));
  EXPECT_THAT(TenantLimits({}, kGiB + 1, 1024, 0, kGiB), Fails(kInvalid, "--memory-limit"));
}

TEST(LimitsTest, ConnectionsLeaveFilesForTheRest) {
  EXPECT_EQ(*ConnectionLimit({}, 1 << 20, 256, 1000), 4096u);
  EXPECT_EQ(*ConnectionLimit({}, 1024, 0, 64), 128u);
  EXPECT_EQ(*ConnectionLimit({}, 64, 0, 4), 16u) << "the least, whatever is left";
  EXPECT_EQ(*ConnectionLimit(10000, 1 << 20, 0, 1000), 10000u);
  EXPECT_THAT(ConnectionLimit(0, 1024, 0, 10), Fails(kInvalid, "--max-connections"));
  const uint64_t left = 1024 - 128 - 256 - 10 * service::kDescriptorsPerTenant;
  EXPECT_THAT(ConnectionLimit(left, 1024, 256, 10), IsOk());
  EXPECT_THAT(ConnectionLimit(left + 1, 1024, 256, 10), Fails(kInvalid, "--max-connections"));
}

// Strangers connect; tenants that are told to be open must find files for it all the same.
TEST(LimitsTest, TenantsConnectionsAndTheRestFitTogether) {
  for (const uint64_t files : {uint64_t{412}, uint64_t{512}, uint64_t{800}, uint64_t{1024},
                               uint64_t{4096}, uint64_t{65536}}) {
    for (const uint64_t http : {uint64_t{0}, uint64_t{256}}) {
      const uint64_t most = (files - 128 - http - 16) / service::kDescriptorsPerTenant;
      for (const std::optional<uint64_t> tenants :
           {std::optional<uint64_t>(), std::optional<uint64_t>(most)}) {
        const auto limits = TenantLimits(tenants, {}, files, http, kGiB);
        ASSERT_THAT(limits, IsOk()) << files;
        const auto connections = ConnectionLimit({}, files, http, limits->max_open);
        ASSERT_THAT(connections, IsOk()) << files;
        EXPECT_LE(limits->max_open * service::kDescriptorsPerTenant + *connections + http + 128,
                  files);
      }
      EXPECT_THAT(TenantLimits(most + 1, {}, files, http, kGiB),
                  Fails(kInvalid, "--max-open-tenants"));
    }
  }
}

}  // namespace
}  // namespace lethe::server
