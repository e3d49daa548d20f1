. ./lib.sh
[ "$(printf "a\nb\n" | last_line)" = b ]
