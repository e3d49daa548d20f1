. ./lib.sh
[ "$(echo one two three | count_words)" = 3 ]
