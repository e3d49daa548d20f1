. ./lib.sh
is_even 4 && ! is_even 5
