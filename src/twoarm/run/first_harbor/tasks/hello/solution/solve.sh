#!/bin/sh
echo 'Hello, Ann!' > /app/hello.txt
