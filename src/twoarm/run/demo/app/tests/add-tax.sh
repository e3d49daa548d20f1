. ./lib.sh
[ "$(add_tax 100)" = 120 ]
