# Plays the CLI as cheaply as can be: `sh silent_cli.sh <folder>`. Every control request is answered as `initialize` is,
# by `initialize.json` in the folder, a prompt by `turn.jsonl` there. Looks for ids in the text of a line.
folder=$1
read -r initialize <"$folder/initialize.json" || [ "$initialize" ]
read -r placeholder <"$folder/prompt"

after() { # the text after "$2": " in a line, up to the next quote
    value=${1#*"\"$2\":"}
    value=${value#*\"}
    value=${value%%\"*}
}

while IFS= read -r line; do
    case $line in
    *'"control_request"'*)
        after "$line" request_id
        body="{\"subtype\":\"success\",\"request_id\":\"$value\",\"response\":$initialize}"
        printf '{"type":"control_response","response":%s}\n' "$body"
        ;;
    *)
        value=$placeholder
        case $line in *'"uuid":'*) after "$line" uuid ;; esac
        sed "s/$placeholder/$value/g" "$folder/turn.jsonl"
        ;;
    esac
done
