#!/bin/sh
# sbom.sh VERSION: the bill of materials of the system it runs on, SPDX 2.3 in JSON, to standard output: Lethe and
# every Debian package that dpkg knows. SOURCE_DATE_EPOCH is its time, where it is set.
set -eu
version=$1
created=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(date +%s)}" +%Y-%m-%dT%H:%M:%SZ)
packages=$(dpkg-query -W -f='${Package}\t${Version}\t${Architecture}\t${source:Package}\t${source:Version}\t${db:Status-Abbrev}\n' |
  awk -F '\t' '$6 ~ /^ii/' | LC_ALL=C sort)
# One content, one name: the hash of what is listed.
hash=$(printf '%s\n%s\n' "$version" "$packages" | sha256sum | cut -c 1-64)
programs=$(cd /usr/bin && sha256sum lethe lethe-verify lethe-worker lethed 2>/dev/null || true)
printf '%s\n' "$packages" | awk -F '\t' -v version="$version" -v created="$created" -v hash="$hash" -v programs="$programs" '
  function escaped(text) { gsub(/%/, "%25", text); gsub(/\+/, "%2B", text); gsub(/~/, "~", text); gsub(/:/, "%3A", text); return text }
  BEGIN {
    print "{"
    print "  \"spdxVersion\": \"SPDX-2.3\","
    print "  \"dataLicense\": \"CC0-1.0\","
    print "  \"SPDXID\": \"SPDXRef-DOCUMENT\","
    print "  \"name\": \"lethe-" version "\","
    print "  \"documentNamespace\": \"urn:lethe:sbom:" version ":" hash "\","
    print "  \"creationInfo\": { \"created\": \"" created "\", \"creators\": [ \"Tool: lethe-sbom-" version "\" ] },"
    print "  \"documentDescribes\": [ \"SPDXRef-lethe\" ],"
    print "  \"packages\": ["
    printf "    { \"SPDXID\": \"SPDXRef-lethe\", \"name\": \"lethe\", \"versionInfo\": \"%s\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, \"licenseConcluded\": \"Apache-2.0\", \"licenseDeclared\": \"Apache-2.0\", \"copyrightText\": \"NOASSERTION\", \"primaryPackagePurpose\": \"APPLICATION\"", version
    n = split(programs, lines, "\n")
    comment = ""
    for (i = 1; i <= n; i++) { split(lines[i], words, " +"); comment = comment (i > 1 ? "; " : "") words[2] " sha256 " words[1] }
    printf ", \"comment\": \"%s\" }", comment
  }
  {
    id = $1 "-" $3; gsub(/[^A-Za-z0-9.-]/, "-", id)
    ids[NR] = "SPDXRef-deb-" id
    printf ",\n    { \"SPDXID\": \"%s\", \"name\": \"%s\", \"versionInfo\": \"%s\", \"supplier\": \"Organization: Debian\", \"downloadLocation\": \"NOASSERTION\", \"filesAnalyzed\": false, \"licenseConcluded\": \"NOASSERTION\", \"licenseDeclared\": \"NOASSERTION\", \"copyrightText\": \"NOASSERTION\", \"sourceInfo\": \"built from %s %s\", \"externalRefs\": [ { \"referenceCategory\": \"PACKAGE-MANAGER\", \"referenceType\": \"purl\", \"referenceLocator\": \"pkg:deb/debian/%s@%s?arch=%s&distro=bookworm\" } ] }", ids[NR], $1, $2, $4, $5, escaped($1), escaped($2), $3
  }
  END {
    print "\n  ],"
    print "  \"relationships\": ["
    printf "    { \"spdxElementId\": \"SPDXRef-DOCUMENT\", \"relationshipType\": \"DESCRIBES\", \"relatedSpdxElement\": \"SPDXRef-lethe\" }"
    for (i = 1; i <= NR; i++) printf ",\n    { \"spdxElementId\": \"SPDXRef-lethe\", \"relationshipType\": \"DEPENDS_ON\", \"relatedSpdxElement\": \"%s\" }", ids[i]
    print "\n  ]"
    print "}"
  }'
