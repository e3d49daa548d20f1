test "$(sh greet.sh Ann)" = "Hello, Ann!"
