package mcp

import (
	"encoding/json"
	"maps"
)

// sections are the long lists of the agent contract, and the members that identify their items. The contract is
// shown without them; each is shown by itself, in pages.
var sections = map[string]string{"operations": "operationId", "errors": "code"}

var section = parameter{
	Name: "section", Description: "One of the contract's long lists, instead of the rest of it.",
	Schema: map[string]any{"type": "string", "enum": []string{"operations", "errors"}},
}

// contractPart is the contract without its long lists, or a page of one of them.
func contractPart(args map[string]string, content []byte) (any, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(content, &members); err != nil {
		return nil, errUnshown
	}
	name, given := args["section"]
	if !given {
		if args["cursor"] != "" || args["limit"] != "" {
			return nil, refusal("The arguments cursor and limit are for a section.")
		}
		maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool { return sections[name] != "" })
		return members, nil
	}
	key, known := sections[name]
	if !known {
		return nil, refusal("The argument section must be operations or errors.")
	}
	page, err := pageOf(args, name, members[name], key)
	if err == nil {
		page["contractVersion"] = members["contractVersion"]
	}
	return page, err
}

// ofContractPart changes the schema of the contract so that it describes any part of it.
func ofContractPart(schema map[string]any) {
	withNextCursor(schema)
	schema["required"] = []string{"contractVersion"}
}
