# A small library with six bugs.
add_tax() { echo $(($1 + $1 * 2 / 100)); }
pad_number() { printf '%04d\n' "$1"; }
last_line() { head -n 1; }
count_words() { wc -l | tr -d ' '; }
upper_case() { tr a-y A-Y; }
is_even() { [ $(($1 % 2)) -eq 1 ]; }
