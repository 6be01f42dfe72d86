# Hourly vital signs to tokens: awk -v want=10000 -f icu_hours.awk set-a.csv set-a.csv > tokens.csv
#
# Takes the first `want` hours in which at least four of seven signs were measured. What was not measured
# in an hour keeps its last value of the same stay; before the first one it is the mean over the hours
# taken. Keys are the seven signs with mean 0 and deviation 1, values are mean pressure and heart rate as
# measured or filled in. The file is read twice: once for means and deviations, once to print.
BEGIN {
  FS = ","
  signs = split("HR MAP SysABP DiasABP RespRate Temp GCS", sign, " ")
  if (want == 0) want = 10000
}
FNR == 1 {
  pass++
  taken = 0
  stay = ""
  for (i = 1; i <= NF; i++) column[$i] = i
  for (k = 1; k <= signs; k++) {
    if (!(sign[k] in column)) { print "icu_hours: no column " sign[k] > "/dev/stderr"; exit 1 }
    if (pass == 2) {
      mean[k] = total[k] / seen[k]
      deviation[k] = sqrt(squares[k] / seen[k] - mean[k] * mean[k])
    }
  }
  if (pass == 2) {
    printf "id,subject"
    for (k = 1; k <= signs; k++) printf ",key.%d", k - 1
    print ",value.0,value.1"
  }
  next
}
{
  if ($1 != stay) {
    stay = $1
    for (k = 1; k <= signs; k++) last[k] = ""
  }
  measured = 0
  for (k = 1; k <= signs; k++) {
    now = $(column[sign[k]])
    if (now != "") { last[k] = now; measured++ }
  }
  if (measured < 4 || taken >= want) next
  taken++
  if (pass == 1) {
    for (k = 1; k <= signs; k++)
      if (last[k] != "") { total[k] += last[k]; squares[k] += last[k] * last[k]; seen[k]++ }
    next
  }
  printf "%s-%s,%s", stay, $2, stay
  for (k = 1; k <= signs; k++) {
    filled[k] = last[k] == "" ? mean[k] : last[k]
    printf ",%.6f", (filled[k] - mean[k]) / deviation[k]
  }
  printf ",%.2f,%.2f\n", filled[2], filled[1]
}
