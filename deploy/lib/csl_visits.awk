# The csl data of r-cran-timereg to tokens: awk -f csl_visits.awk csl.txt > visits.csv
#
# A visit is a row: id (the patient), time (years since the start), prot (prothrombin index at the visit),
# dc (1: died, 0: still alive when last seen), eventT (years until that), sex, age (years above 60),
# treat, prot.base and prot.prev (the index at the start and at the visit before), lt and rt (the time
# between two visits). Columns are found by name; a row has its number in front, which the header lacks.
#
# Out: id (patient-visit), patient, five keys with mean 0 and deviation 1 over all visits, and two values:
# died, and years from this visit until death or last sight. With -v queries=FILE three made-up visits, on
# the same scale, are written to FILE.
FNR == 1 {
  for (i = 1; i <= NF; i++) {
    name = $i
    gsub(/"/, "", name)
    column[name] = i + 1
  }
  keys = split("prot prot.prev prot.base age time", key, " ")
  needed = split("id time dc eventT", more, " ")
  for (k = 1; k <= keys; k++) need[key[k]]
  for (k = 1; k <= needed; k++) need[more[k]]
  for (name in need)
    if (!(name in column)) { print "csl_visits: no column " name > "/dev/stderr"; exit failed = 1 }
  next
}
NF > 1 {
  n++
  for (k = 1; k <= keys; k++) {
    x = $(column[key[k]])
    raw[n, k] = x
    sum[k] += x
    squares[k] += x * x
  }
  patient[n] = $(column["id"])
  died[n] = $(column["dc"])
  years[n] = $(column["eventT"]) - $(column["time"])
}
function scaled(x, k,    mean) {
  mean = sum[k] / n
  return (x - mean) / sqrt(squares[k] / n - mean * mean)
}
END {
  if (failed) exit 1
  printf "visit,patient"
  for (k = 1; k <= keys; k++) printf ",%s", key[k]
  print ",died,years"
  for (i = 1; i <= n; i++) {
    visit = patient[i] == patient[i - 1] ? visit + 1 : 1
    printf "%d-%d,%d", patient[i], visit, patient[i]
    for (k = 1; k <= keys; k++) printf ",%.4f", scaled(raw[i, k], k)
    printf ",%d,%.3f\n", died[i], years[i] < 0 ? 0 : years[i]
  }
  if (queries == "") exit
  # prot, prot.prev, prot.base, age above 60, years since the start
  asked[1] = "105 95 70 0 2"
  asked[2] = "35 50 65 5 1"
  asked[3] = "170 20 20 -40 9"
  for (k = 1; k <= keys; k++) printf "%s%s", key[k], (k < keys ? "," : "\n") > queries
  for (i = 1; i <= 3; i++) {
    split(asked[i], visit_of, " ")
    for (k = 1; k <= keys; k++)
      printf "%.4f%s", scaled(visit_of[k], k), (k < keys ? "," : "\n") > queries
  }
}
