#!/bin/sh
# An agent as a shell script: counts what it is asked. `"agents": { "counter": { "command": "./counter.sh" } }`.
# What the node writes begins with "type", then "id", so that a line's beginning tells what it is.
count=0
while read -r line; do
  rest=${line#*'"id":'}
  id=${rest%%[!0-9]*}
  case $line in
    '{"type":"hello"'*) echo '{"type":"ready","protocol":1,"name":"counter","heartbeat":false}' ;;
    '{"type":"health"'*) echo "{\"type\":\"health\",\"id\":$id,\"state\":\"healthy\"}" ;;
    '{"type":"execute"'*)
      count=$((count + 1))
      echo "{\"type\":\"result\",\"id\":$id,\"result\":$count}"
      ;;
  esac
done
