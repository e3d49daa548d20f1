. ./lib.sh
[ "$(echo lazy | upper_case)" = LAZY ]
