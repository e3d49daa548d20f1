. ./lib.sh
[ "$(pad_number 42)" = 00042 ]
