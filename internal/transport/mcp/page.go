package mcp

import (
	"encoding/json"
	"fmt"
	"strconv"
)

const (
	// defaultItems and maxItems are how many items a page of a list has.
	defaultItems, maxItems = 25, 100
	// pageBytes ends a page whose items are long. An answer has its content twice, as structure and as text with
	// escaped quotes, so it has at most about 25 kB.
	pageBytes = 10_000
)

// paging are the arguments of a tool whose list comes in pages.
var paging = []parameter{
	{
		Name: "cursor", Description: "The nextCursor of the page before. Without it, the first page.",
		Schema: map[string]any{"type": "string"},
	},
	{
		Name: "limit", Description: "The most items of a page. It has fewer when they are long.",
		Schema: map[string]any{"type": "integer", "minimum": 1, "maximum": maxItems, "default": defaultItems},
	},
}

// nextCursor describes the member that names the next page.
var nextCursor = map[string]any{
	"type": "string", "description": "The cursor of the next page; absent on the last one.",
}

// withNextCursor adds the member to the output schema of a list.
func withNextCursor(schema map[string]any) {
	properties, _ := schema["properties"].(map[string]any)
	properties["nextCursor"] = nextCursor
}

// pages makes pages of the list in a member of a route's answer. key is the member that identifies an item.
func pages(member, key string) func(map[string]string, []byte) (any, error) {
	return func(args map[string]string, content []byte) (any, error) {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(content, &members); err != nil {
			return nil, errUnshown
		}
		return pageOf(args, member, members[member], key)
	}
}

// pageOf is the page of a list that the arguments ask for. The cursor is the key of the last item before it,
// because a list may change between two pages.
func pageOf(args map[string]string, member string, list json.RawMessage, key string) (map[string]any, error) {
	var items []json.RawMessage
	if err := json.Unmarshal(list, &items); err != nil {
		return nil, errUnshown
	}
	limit := defaultItems
	if text, given := args["limit"]; given {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > maxItems {
			return nil, refusal(fmt.Sprintf("The argument limit must be 1 to %d.", maxItems))
		}
	}
	begin := 0
	if cursor := args["cursor"]; cursor != "" {
		for begin < len(items) && keyOf(items[begin], key) != cursor {
			begin++
		}
		if begin++; begin > len(items) {
			return nil, refusal("The cursor names nothing in the list any more. Begin again without one.")
		}
	}
	end, size := begin, 0
	for end < len(items) && end-begin < limit && (end == begin || size+len(items[end]) <= pageBytes) {
		size += len(items[end])
		end++
	}
	page := map[string]any{member: append([]json.RawMessage{}, items[begin:end]...)}
	if end < len(items) {
		page["nextCursor"] = keyOf(items[end-1], key)
	}
	return page, nil
}

// keyOf is the text of a member.
func keyOf(item json.RawMessage, key string) string {
	var members map[string]any
	if err := json.Unmarshal(item, &members); err != nil {
		return ""
	}
	text, _ := members[key].(string)
	return text
}

// errUnshown is for an answer that is not in its documented form.
const errUnshown = refusal("The answer cannot be shown.")
