// The search against a naive one, across the borders of its blocks, and over files.
#include "audit/trace_search.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "audit/trace_files.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/audit/sample.h"

namespace lethe::audit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using testing::TempFolder;
using testing::WriteAll;

using Random = std::mt19937_64;

std::string RandomBytes(Random& random, size_t size, int values = 256) {
  std::string bytes(size, '\0');
  for (char& c : bytes) c = static_cast<char>(random() % static_cast<uint64_t>(values));
  return bytes;
}

std::vector<double> RandomVector(Random& random, size_t size) {
  std::vector<double> vector;
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < size; ++i) vector.push_back(normal(random));
  return vector;
}

std::unique_ptr<TraceSearch> Make(std::vector<TraceThing> things) {
  absl::StatusOr<std::unique_ptr<TraceSearch>> search = TraceSearch::Create(std::move(things));
  EXPECT_TRUE(search.ok()) << search.status();
  return *std::move(search);
}

std::unique_ptr<TraceSearch> ForTexts(const std::vector<std::string>& texts,
                                      const TraceRules& rules = {}) {
  std::vector<TraceThing> things;
  for (const std::string& text : texts) {
    things.push_back({absl::StrCat("text ", things.size() + 1), TextForms(text, rules).value()});
  }
  return Make(std::move(things));
}

std::vector<TracePlace> PlacesIn(TraceSearch& search, absl::string_view bytes) {
  std::vector<TracePlace> places;
  EXPECT_EQ(search.ScanBytes(bytes, [&](const TracePlace& place) { places.push_back(place); }),
            bytes.size());
  return places;
}

// Thing, form, offset, length.
using Hit = std::tuple<uint32_t, uint32_t, uint64_t, uint64_t>;

std::vector<Hit> Sorted(const std::vector<TracePlace>& places) {
  std::vector<Hit> hits;
  for (const TracePlace& one : places) {
    hits.emplace_back(one.thing, one.form, one.offset, one.bytes);
  }
  std::sort(hits.begin(), hits.end());
  return hits;
}

// By the definition: for each alignment of each form the stretches that match, and in them the runs
// that count, joined where they touch. Requires runs whose parts follow each other without gaps.
std::vector<Hit> Naive(const TraceSearch& search, absl::string_view bytes) {
  std::vector<Hit> hits;
  for (uint32_t thing = 0; thing < search.things().size(); ++thing) {
    for (uint32_t index = 0; index < search.things()[thing].forms.size(); ++index) {
      const TraceForm& form = search.things()[thing].forms[index];
      const auto length = static_cast<int64_t>(form.bytes().size());
      for (int64_t origin = -length; origin < static_cast<int64_t>(bytes.size()); ++origin) {
        const auto matches = [&](size_t begin, size_t end) {
          const int64_t from = origin + static_cast<int64_t>(begin);
          return from >= 0 && bytes.substr(static_cast<size_t>(std::min<int64_t>(
                                               from, static_cast<int64_t>(bytes.size()))),
                                           end - begin) ==
                                  absl::string_view(form.bytes()).substr(begin, end - begin);
        };
        size_t open_begin = 0;
        size_t open_end = 0;  // no place is open
        const auto tell = [&] {
          if (open_end == 0) return;
          const size_t first = form.Begin(open_begin);
          hits.emplace_back(thing, index,
                            static_cast<uint64_t>(origin + static_cast<int64_t>(first)),
                            form.End(open_end - 1) - first);
          open_end = 0;
        };
        for (size_t unit = 0; unit + form.run() <= form.units(); ++unit) {
          if (!form.Counts(unit) || !matches(form.Begin(unit), form.End(unit + form.run() - 1))) {
            continue;
          }
          if (open_end < unit) tell();
          if (open_end == 0) open_begin = unit;
          open_end = unit + form.run();
        }
        tell();
      }
    }
  }
  std::sort(hits.begin(), hits.end());
  return hits;
}

TEST(TraceSearch, AgreesWithANaiveSearch) {
  size_t all = 0;
  for (uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    Random random(seed);
    // Few values, so that parts and near misses abound.
    const int values = seed % 3 == 0 ? 2 : seed % 3 == 1 ? 3 : 256;
    const TraceRules rules{.text_run = 6 + random() % 20,
                           .vector_run = 1 + random() % 4,
                           .allow_short = seed % 2 == 0};
    std::vector<TraceThing> things;
    for (int i = 0; i < 3; ++i) {
      const size_t length = (rules.allow_short ? 1 : 6) + random() % 30;
      things.push_back({"text", TextForms(RandomBytes(random, length, values), rules).value()});
    }
    things.push_back(
        {"vector", VectorForms(RandomVector(random, 1 + random() % 9), rules).value()});
    const std::unique_ptr<TraceSearch> search = Make(std::move(things));
    std::string bytes = RandomBytes(random, 1500, values);
    for (int i = 0; i < 40; ++i) {
      // A part of a form somewhere.
      const TraceThing& thing = search->things()[random() % 4];
      const std::string& form = thing.forms[random() % thing.forms.size()].bytes();
      const size_t begin = random() % 3 == 0 ? random() % form.size() : 0;
      const std::string part = form.substr(begin, random() % 2 == 0 ? form.size() : random() % 40);
      const size_t at = random() % (bytes.size() - std::min(bytes.size() - 1, part.size()));
      bytes.replace(at, part.size(), part);
    }
    const std::vector<Hit> expected = Naive(*search, bytes);
    EXPECT_EQ(Sorted(PlacesIn(*search, bytes)), expected);
    all += expected.size();
  }
  EXPECT_GT(all, 200u);
}

TEST(TraceSearch, FindsEveryFormAcrossEveryBorder) {
  Random random(7);
  const std::vector<double> vector = RandomVector(random, 6);
  std::vector<TraceThing> things;
  things.push_back({"text", TextForms("Z\xc3\xbcrich <7\">", {}).value()});
  things.push_back({"vector", VectorForms(vector, {}).value()});
  const std::unique_ptr<TraceSearch> search = Make(std::move(things));
  // The first block ends somewhere beyond 1 MiB. Reads of odd sizes move nothing.
  constexpr size_t kStep = 4099;
  for (const TraceThing& thing : search->things()) {
    for (const TraceForm& form : thing.forms) {
      std::string bytes(size_t{3} << 20, '\x01');
      std::vector<uint64_t> expected;
      for (size_t at = random() % kStep; at + form.bytes().size() < bytes.size(); at += kStep) {
        bytes.replace(at, form.bytes().size(), form.bytes());
        expected.push_back(at);
      }
      std::vector<uint64_t> found;
      absl::string_view rest = bytes;
      const auto read = [&](char* out, size_t capacity) -> absl::StatusOr<size_t> {
        const size_t count = std::min({capacity, rest.size(), 1 + random() % 70000});
        std::copy_n(rest.data(), count, out);
        rest.remove_prefix(count);
        return count;
      };
      ASSERT_TRUE(search
                      ->Scan(read,
                             [&](const TracePlace& place) {
                               if (search->things()[place.thing].forms[place.form].bytes() ==
                                   form.bytes()) {
                                 found.push_back(place.offset);
                               }
                             })
                      .ok());
      std::sort(found.begin(), found.end());
      EXPECT_EQ(found, expected) << thing.name << " " << form.name();
    }
  }
}

// Every offset around the end of the first blocks, in turn.
TEST(TraceSearch, NoOffsetAtABorderIsBlind) {
  const std::string text = "a text of thirty-three bytes here";
  const std::unique_ptr<TraceSearch> search = ForTexts({text});
  std::string bytes((size_t{1} << 20) + 4096, '.');
  for (size_t at = (size_t{1} << 20) - 300; at < (size_t{1} << 20) + 700; ++at) {
    bytes.replace(at, text.size(), text);
    const std::vector<TracePlace> places = PlacesIn(*search, bytes);
    ASSERT_EQ(places.size(), 1u) << at;
    ASSERT_EQ(places[0].offset, at);
    bytes.replace(at, text.size(), text.size(), '.');
    at += 6;
  }
}

TEST(TraceSearch, RandomBytesHoldNothing) {
  Random random(99);
  std::vector<TraceThing> things;
  for (int i = 0; i < 100; ++i) {
    things.push_back({"text", TextForms(RandomBytes(random, 6 + random() % 60), {}).value()});
    things.push_back({"vector", VectorForms(RandomVector(random, 1 + random() % 8), {}).value()});
  }
  const std::unique_ptr<TraceSearch> search = Make(std::move(things));
  EXPECT_GT(search->forms(), 3000u);
  std::string bytes(size_t{16} << 20, '\0');
  for (size_t i = 0; i < bytes.size(); i += 8) {
    const uint64_t word = random();
    std::copy_n(reinterpret_cast<const char*>(&word), 8, bytes.data() + i);
  }
  EXPECT_THAT(PlacesIn(*search, bytes), IsEmpty());
  // Nor do zeros, ones and text.
  for (const std::string& piece : {std::string(1, '\0'), std::string("\xff"),
                                   std::string("The quick brown fox, 0.5, 1.0, 3.14159; ")}) {
    std::string dull;
    while (dull.size() < (size_t{1} << 20)) dull += piece;
    EXPECT_THAT(PlacesIn(*search, dull), IsEmpty());
  }
}

TEST(TraceSearch, PartsOfLongThingsCount) {
  Random random(3);
  const std::string text = RandomBytes(random, 3000);
  const std::vector<double> vector = RandomVector(random, 300);
  std::vector<TraceThing> things;
  things.push_back({"text", TextForms(text, {}).value()});
  things.push_back({"vector", VectorForms(vector, {}).value()});
  const std::unique_ptr<TraceSearch> search = Make(std::move(things));
  const auto piece = [](const std::string& bytes, size_t at, size_t size) {
    return absl::StrCat(std::string(100, '-'), bytes.substr(at, size), std::string(100, '-'));
  };
  EXPECT_THAT(Sorted(PlacesIn(*search, piece(text, 777, 256))), ElementsAre(Hit(0, 0, 100, 256)));
  EXPECT_THAT(Sorted(PlacesIn(*search, piece(text, 777, 255))), IsEmpty());
  // As a database with pages would keep it: three places.
  EXPECT_EQ(
      PlacesIn(*search, piece(text, 0, 1000) + piece(text, 1000, 1000) + piece(text, 2000, 1000))
          .size(),
      3u);
  const std::string bytes = search->things()[1].forms[0].bytes();
  ASSERT_EQ(search->things()[1].forms[0].name(), "f64le");
  std::vector<TracePlace> places = PlacesIn(*search, piece(bytes, 80, 8 * 50));
  ASSERT_EQ(places.size(), 1u);
  EXPECT_EQ(places[0].units, 50u);
  EXPECT_EQ(places[0].offset, 100u);
  // Four numbers count, three do not, wherever they are cut.
  EXPECT_EQ(PlacesIn(*search, piece(bytes, 81, 8 * 5 - 1)).size(), 1u);
  EXPECT_EQ(PlacesIn(*search, piece(bytes, 81, 8 * 4 - 1 + 7)).size(), 0u);
}

// Whole characters of `text` within `size` bytes from `begin` on.
std::string WholeCharacters(const std::string& text, size_t begin, size_t size) {
  const auto inside = [&](size_t at) {
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  size_t end = begin + size;
  while (inside(begin)) ++begin;
  while (inside(end)) --end;
  return text.substr(begin, end - begin);
}

std::string Utf16Of(const std::string& text) {
  const TempFolder folder;
  WriteAll(folder / "in", text);
  const std::string line =
      absl::StrCat("iconv -f UTF-8 -t UTF-16LE '", folder / "in", "' >'", folder / "out", "'");
  EXPECT_EQ(std::system(line.c_str()), 0) << line;
  return testing::ReadAll(folder / "out");
}

std::string Base64Of(const std::string& bytes) {
  const TempFolder folder;
  WriteAll(folder / "in", bytes);
  const std::string line = absl::StrCat("base64 -w0 '", folder / "in", "' >'", folder / "out", "'");
  EXPECT_EQ(std::system(line.c_str()), 0) << line;
  return testing::ReadAll(folder / "out");
}

// Any 256 bytes in a row of a text of more are enough, in every form, and fewer are not.
TEST(TraceSearch, AnyPartOfALongTextCountsInEveryForm) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(absl::StrCat("seed ", kSeed));
  Random random(kSeed);
  std::string chinese;  // 200 characters of three bytes
  std::string mixed;    // of one to four
  const char* const kinds[] = {"k", "\xc3\xab", "\xe6\xb2\xb3", "\xf0\x9f\x98\x80"};
  while (chinese.size() < 600) {
    chinese += {static_cast<char>(0xE5 + random() % 4), static_cast<char>(0x80 + random() % 64),
                static_cast<char>(0x80 + random() % 64)};
  }
  while (mixed.size() < 600) mixed += kinds[random() % 4] + std::to_string(random() % 10);
  std::string ascii = absl::BytesToHexString(RandomBytes(random, 300));
  for (const std::string& text : {chinese, mixed, ascii}) {
    const std::unique_ptr<TraceSearch> search = ForTexts({text});
    const auto found = [&](const std::string& bytes, absl::string_view form) {
      for (const TracePlace& place : PlacesIn(*search, absl::StrCat("\xff\xfe", bytes, "\xfe"))) {
        if (search->things()[0].forms[place.form].name() == form) return true;
      }
      return false;
    };
    // Every place within a character and within a group of three.
    for (size_t begin = 171; begin < 174; ++begin) {
      const std::string part = text.substr(begin, 256);
      EXPECT_TRUE(found(part, "utf-8")) << begin;
      EXPECT_FALSE(found(part.substr(1), "utf-8")) << begin;
      EXPECT_TRUE(found(absl::BytesToHexString(part), "hex")) << begin;
      EXPECT_FALSE(found(absl::BytesToHexString(part).substr(1), "hex")) << begin;
      EXPECT_TRUE(found(Utf16Of(WholeCharacters(text, begin, 256)), "utf-16le")) << begin;
      EXPECT_FALSE(found(Utf16Of(WholeCharacters(text, begin, 120)), "utf-16le")) << begin;
      for (const char* before : {"", "a", "bc"}) {
        EXPECT_TRUE(found(Base64Of(absl::StrCat(before, part, "\xff\xff")), "base64"))
            << begin << before;
        EXPECT_FALSE(found(Base64Of(absl::StrCat(before, part.substr(4), "\xff\xff")), "base64"))
            << begin << before;
      }
    }
  }
}

TEST(TraceSearch, SelfTestCoversEveryForm) {
  Random random(5);
  std::vector<TraceThing> things;
  for (int i = 0; i < 20; ++i) {
    things.push_back(
        {"text",
         TextForms(RandomBytes(random, 1 + random() % 700), {.allow_short = true}).value()});
    things.push_back({"vector", VectorForms(RandomVector(random, 1 + random() % 99), {}).value()});
  }
  const std::unique_ptr<TraceSearch> search = Make(std::move(things));
  const absl::StatusOr<uint64_t> bytes = search->SelfTest();
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_GT(*bytes, size_t{1} << 16);
}

TEST(TraceFiles, ReadsWhatIsThereAndTellsTheRest) {
  const TempFolder folder;
  const std::string secret = "patient-4711";
  const std::unique_ptr<TraceSearch> search = ForTexts({secret, "somebody else"});
  for (const char* name : {"a", "b", "c", "outside"}) {
    std::filesystem::create_directories(folder / name);
  }
  WriteAll(folder / "a/plain", absl::StrCat("xx", secret));
  WriteAll(folder / "a/empty", "");
  WriteAll(folder / "b/patient-4711.txt", "nothing in it");
  WriteAll(folder / "outside/far", secret);
  std::filesystem::create_symlink(folder / "outside", folder / "c/link");
  std::filesystem::create_symlink("../patient-4711", folder / "c/dangling");
  ASSERT_EQ(::mkfifo((folder / "c/pipe").c_str(), 0600), 0);
  const std::vector<std::string> paths = {folder / "a", folder / "b", folder / "c"};
  const TraceReport report = SearchFiles(*search, paths, 100).value();
  EXPECT_EQ(report.files, 3u);
  EXPECT_EQ(report.folders, 3u);
  EXPECT_EQ(report.places, 3u);
  EXPECT_EQ(report.files_with_places, 3u);
  EXPECT_THAT(report.places_of_thing, ElementsAre(3u, 0u));
  EXPECT_EQ(report.missing(), 1u);
  ASSERT_EQ(report.findings.size(), 3u);
  EXPECT_THAT(report.findings[0].path, ::testing::EndsWith("a/plain"));
  EXPECT_EQ(report.findings[0].place.offset, 2u);
  EXPECT_THAT(report.findings[1].path, ::testing::EndsWith("b/[text 1].txt"));
  EXPECT_TRUE(report.findings[1].in_name);
  EXPECT_THAT(report.findings[2].path, ::testing::EndsWith("c/dangling"));
  EXPECT_EQ(report.of(TraceNote::kSymbolicLink).count, 2u);
  EXPECT_EQ(report.of(TraceNote::kSpecial).count, 1u);
  EXPECT_EQ(report.of(TraceNote::kChanged).count, 0u);
  // A link that is named is meant.
  const std::vector<std::string> link = {folder / "c/link"};
  EXPECT_EQ(SearchFiles(*search, link, 0).value().places, 1u);
  const std::vector<std::string> absent = {folder / "patient-4711-absent"};
  const absl::Status status = SearchFiles(*search, absent, 0).status();
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_THAT(std::string(status.message()), Not(HasSubstr(secret)));
}

TEST(TraceFiles, ChangesWhileReadingAreTold) {
  const TempFolder folder;
  const std::string path = folder / "log";
  WriteAll(path, "a long secret");
  ASSERT_EQ(::truncate(path.c_str(), off_t{64} << 20), 0);
  const std::unique_ptr<TraceSearch> search = ForTexts({"a long secret"});
  const std::vector<std::string> paths = {folder.path()};
  EXPECT_EQ(SearchFiles(*search, paths, 0).value().of(TraceNote::kChanged).count, 0u);
  std::atomic<bool> writing = false;
  std::atomic<bool> stop = false;
  std::thread writer([&] {
    const int file = ::open(path.c_str(), O_WRONLY);
    while (!stop) {
      EXPECT_EQ(::pwrite(file, "x", 1, 1000), 1);
      writing = true;
    }
    ::close(file);
  });
  while (!writing) std::this_thread::yield();
  const TraceReport report = SearchFiles(*search, paths, 0).value();
  stop = true;
  writer.join();
  EXPECT_EQ(report.places, 1u);
  EXPECT_THAT(report.of(TraceNote::kChanged).first, ElementsAre(path));
  // A file of the kernel has another length than it says.
  const std::vector<std::string> kernel = {"/proc/self/status"};
  EXPECT_EQ(SearchFiles(*search, kernel, 0).value().of(TraceNote::kChanged).count, 1u);
}

TEST(TraceFiles, UnreadableFilesAreTold) {
  const TempFolder folder;
  const std::unique_ptr<TraceSearch> search = ForTexts({"a long secret"});
  // Opens for everybody, and cannot be read from the start.
  const std::vector<std::string> paths = {"/proc/self/mem"};
  const TraceReport report = SearchFiles(*search, paths, 0).value();
  EXPECT_EQ(report.files, 0u);
  ASSERT_EQ(report.of(TraceNote::kUnreadable).count, 1u);
  EXPECT_THAT(report.of(TraceNote::kUnreadable).first[0], HasSubstr("/proc/self/mem: "));
}

TEST(TraceFiles, ALargeFileTakesLittleMemory) {
  const TempFolder folder;
  const std::string path = folder / "sparse";
  constexpr off_t kSize = off_t{300} << 20;
  const std::string secret = "the needle in the haystack";
  WriteAll(path, "");
  const int file = ::open(path.c_str(), O_WRONLY);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::ftruncate(file, kSize), 0);
  ASSERT_GT(::pwrite(file, secret.data(), secret.size(), kSize / 2 - 7), 0);
  ASSERT_GT(::pwrite(file, secret.data(), secret.size(), kSize - 26), 0);
  ::close(file);
  const std::unique_ptr<TraceSearch> search = ForTexts({secret});
  const auto peak = [] {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const auto before = peak();
  const std::vector<std::string> paths = {path};
  const TraceReport report = SearchFiles(*search, paths, 10).value();
  EXPECT_EQ(report.bytes, static_cast<uint64_t>(kSize));
  ASSERT_EQ(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[0].place.offset, static_cast<uint64_t>(kSize / 2 - 7));
  EXPECT_EQ(report.findings[1].place.offset, static_cast<uint64_t>(kSize - 26));
  EXPECT_LT(peak() - before, 16 * 1024);
}

}  // namespace
}  // namespace lethe::audit
