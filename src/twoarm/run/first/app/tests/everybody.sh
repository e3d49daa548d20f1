test "$(sh greet.sh Ann Bob)" = "Hello, Ann and Bob!"
