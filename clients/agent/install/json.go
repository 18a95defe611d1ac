package install

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// member is one of an entry's, a text or a list of texts.
type member struct {
	name  string
	value any
}

func (m member) text() string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false) // a path may have an ampersand
	_ = enc.Encode(m.value)  // texts and lists of texts always encode
	spaced := strings.TrimSpace(b.String())
	return strings.ReplaceAll(spaced, `","`, `", "`)
}

// jsonDocument is a file with one server and nothing else.
func jsonDocument(key string, members []member, name string) string {
	server := object(members, "      ", "    ")
	return "{\n  " + quoted(key) + ": {\n    " + quoted(name) + ": " + server + "\n  }\n}\n"
}

// object writes members in lines of an indentation, and its end in a smaller one.
func object(members []member, inner, outer string) string {
	lines := make([]string, len(members))
	for i, m := range members {
		lines[i] = inner + quoted(m.name) + ": " + m.text()
	}
	return "{\n" + strings.Join(lines, ",\n") + "\n" + outer + "}"
}

func quoted(text string) string { return member{value: text}.text() }

// enterJSON puts the server below key. It changes only the bytes of the entry; comments and final commas, which VS Code
// writes, stay. What it made is read again before it is given away.
func enterJSON(old []byte, key, name string, members []member) ([]byte, error) {
	if len(bytes.TrimSpace(old)) == 0 {
		return []byte(jsonDocument(key, members, name)), nil
	}
	before, err := decode(old)
	if err != nil {
		return nil, err
	}
	text, err := edit(string(old), key, name, members)
	if err != nil {
		return nil, err
	}
	after, err := decode([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("the entry does not fit in: %w", err)
	}
	if want := merged(before, key, name, members); !reflect.DeepEqual(after, want) {
		return nil, errors.New("the entry would change something else")
	}
	return []byte(text), nil
}

// edit finds the place and changes it.
func edit(text, key, name string, members []member) (string, error) {
	top, err := scan(text)
	if err != nil {
		return "", err
	}
	if top.kind != '{' {
		return "", errors.New("it is no JSON object")
	}
	servers, found, err := top.find(key)
	if err != nil {
		return "", err
	}
	if !found {
		in := top.indent(text)
		return insert(text, top, quoted(key)+": {\n"+in+in+quoted(name)+": "+
			object(members, in+in+in, in+in)+"\n"+in+"}"), nil
	}
	if servers.kind != '{' {
		return "", fmt.Errorf("%s is no object", key)
	}
	entry, found, err := servers.find(name)
	if err != nil {
		return "", err
	}
	if !found {
		in := servers.indent(text)
		return insert(text, servers, quoted(name)+": "+object(members, in+top.indent(text), in)), nil
	}
	if entry.kind != '{' {
		return "", fmt.Errorf("%s is no object", name)
	}
	return update(text, entry, members)
}

// update sets the members of an entry that is there. One that is called at an address is another server.
func update(text string, entry value, members []member) (string, error) {
	for _, remote := range []string{"url", "serverUrl", "httpUrl"} {
		if _, found, err := entry.find(remote); err != nil || found {
			return "", errors.Join(err, errors.New("its entry of this name is a remote server; take another --name"))
		}
	}
	for _, m := range members {
		// The text moves with every change: places are found again.
		moved, err := scan(text[entry.start:])
		if err != nil {
			return "", err
		}
		moved = moved.shift(entry.start)
		at, found, err := moved.find(m.name)
		switch {
		case err != nil:
			return "", err
		case !found:
			text = insert(text, moved, quoted(m.name)+": "+m.text())
		case !sameJSON(text[at.start:at.end], m.text()):
			text = text[:at.start] + m.text() + text[at.end:]
		}
	}
	return text, nil
}

// sameJSON leaves a value alone that only looks different.
func sameJSON(a, b string) bool {
	x, errA := decode([]byte(a))
	y, errB := decode([]byte(b))
	return errA == nil && errB == nil && reflect.DeepEqual(x, y)
}

// insert adds a member as the object's last.
func insert(text string, o value, m string) string {
	newline := "\n"
	if strings.Contains(text, "\r\n") {
		newline = "\r\n"
	}
	in := o.indent(text)
	m = strings.ReplaceAll(in+m, "\n", newline)
	shut := o.end - 1
	head := strings.TrimRight(text[:shut], " \t\r\n")
	tail := text[len(head):shut]
	if !strings.Contains(tail, "\n") {
		tail = newline + o.outer(text)
	}
	if n := len(o.members); n > 0 && o.comma < 0 {
		last := o.members[n-1].value.end // what follows is comments, which stay with what they are about
		head = head[:last] + "," + head[last:]
	}
	return head + newline + m + tail + text[shut:]
}

// merged is what the file must contain afterwards.
func merged(before any, key, name string, members []member) any {
	top, _ := before.(map[string]any)
	servers, _ := top[key].(map[string]any)
	if servers == nil {
		servers = map[string]any{}
	}
	entry, _ := servers[name].(map[string]any)
	if entry == nil {
		entry = map[string]any{}
	}
	for _, m := range members {
		var v any
		_ = json.Unmarshal([]byte(m.text()), &v) // it was encoded just now
		entry[m.name] = v
	}
	servers[name] = entry
	top[key] = servers
	return top
}
