package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/roamcard/roamcard/internal/money/decimal"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
)

// tool is an entry of the table, bound to the route it reads.
type tool struct {
	entry
	Config
	described *sdk.Tool
	arguments []parameter
}

func newTool(c Config, api *openAPI, e entry) (*tool, error) {
	op, ok := api.Paths[e.path]["get"]
	if !ok {
		return nil, fmt.Errorf("GET %s is not documented", e.path)
	}
	t := &tool{entry: e, Config: c, arguments: append(api.arguments(op), e.own...)}
	output := e.schema
	if output == nil {
		var err error
		if output, err = api.outputSchema(op, e.member); err != nil {
			return nil, err
		}
		if e.reform != nil {
			e.reform(output)
		}
	}
	no := false
	t.described = &sdk.Tool{
		Name: e.name, Title: e.title, Description: e.text,
		InputSchema: inputSchema(t.arguments), OutputSchema: output,
		Annotations: &sdk.ToolAnnotations{
			Title: e.title, ReadOnlyHint: true, IdempotentHint: true, DestructiveHint: &no, OpenWorldHint: &no,
		},
	}
	return t, nil
}

// serve answers a call of the tool. A failure is the tool's own error, which a model can read; errors of the
// protocol are the SDK's.
func (t *tool) serve(ctx context.Context, req *sdk.CallToolRequest) (result *sdk.CallToolResult, err error) {
	defer func() {
		// The SDK calls tools on a goroutine of its own, where a panic would end the process.
		if v := recover(); v != nil {
			t.Log.ErrorContext(ctx, "panic", slog.String("tool", t.name))
			result, err = failed("Something went wrong on our side."), nil
		}
	}()
	args, err := t.read(req.Params.Arguments)
	if err != nil {
		return failed(err.Error()), nil
	}
	got, err := t.call(ctx, args)
	if err != nil {
		return nil, err
	}
	content, err := t.show(args, got)
	if err != nil {
		return failed(err.Error()), nil
	}
	return &sdk.CallToolResult{
		Content: []sdk.Content{&sdk.TextContent{Text: string(content)}}, StructuredContent: json.RawMessage(content),
	}, nil
}

// read reads the arguments as text. They are documented, of their types, and complete; the route checks the values.
func (t *tool) read(arguments json.RawMessage) (map[string]string, error) {
	given := map[string]json.RawMessage{}
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &given); err != nil {
			return nil, refusal("The arguments must be one JSON object.")
		}
	}
	args := map[string]string{}
	for _, p := range t.arguments {
		value, ok := given[p.Name]
		delete(given, p.Name)
		if !ok && p.Required {
			return nil, refusal(fmt.Sprintf("The argument %s is missing.", p.Name))
		}
		if !ok {
			continue
		}
		text, err := p.text(value)
		if err != nil {
			return nil, err
		}
		if text == "" && p.In == "path" {
			return nil, refusal(fmt.Sprintf("The argument %s must not be empty.", p.Name))
		}
		args[p.Name] = text
	}
	if len(given) > 0 {
		return nil, refusal("There is an argument that the tool does not take.")
	}
	return args, nil
}

// text is the value of an argument: a string, or the digits of an integer, however it is written.
func (p parameter) text(value json.RawMessage) (text string, err error) {
	if p.Schema["type"] == "integer" {
		plain, err := decimal.Whole(string(value))
		if err == nil {
			_, err = strconv.Atoi(plain)
		}
		if err != nil {
			return "", refusal(fmt.Sprintf("The argument %s must be an integer.", p.Name))
		}
		return plain, nil
	}
	if err := json.Unmarshal(value, &text); err != nil || string(value) == "null" {
		return "", refusal(fmt.Sprintf("The argument %s must be a string.", p.Name))
	}
	return text, nil
}

// call reads the route anonymously: nothing of the caller's request is passed on.
func (t *tool) call(ctx context.Context, args map[string]string) (*rpcx.Answer, error) {
	path, query := t.path, url.Values{}
	for _, p := range t.arguments {
		value, given := args[p.Name]
		switch {
		case p.In == "path":
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(value))
		case given && p.In == "query":
			query.Set(p.Name, value)
		}
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.BaseURL+path, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("make the call of %s: %w", t.path, err)
	}
	got := new(rpcx.Answer)
	t.API.ServeHTTP(got, r)
	return got, nil
}

// show makes the tool's content from the route's answer. Its error may be shown.
func (t *tool) show(args map[string]string, got *rpcx.Answer) ([]byte, error) {
	if t.answer != nil {
		content, err := t.answer(t.Config, args, got)
		if err != nil {
			return nil, err
		}
		return json.Marshal(content)
	}
	if got.Status != http.StatusOK {
		return nil, problemOf(got)
	}
	content := got.Body.Bytes()
	if t.member != "" {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(content, &members); err != nil || members[t.member] == nil {
			return nil, errUnshown
		}
		content = members[t.member]
	}
	if t.part != nil {
		part, err := t.part(args, content)
		if err != nil {
			return nil, err
		}
		return json.Marshal(part)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, content); err != nil {
		return nil, errUnshown
	}
	return compact.Bytes(), nil
}

// refusal is a sentence, or a problem document, for the caller of the tool.
type refusal string

// Error implements error.
func (r refusal) Error() string { return string(r) }

// failed is a tool's own error. It has no structured content, which would have to match the output schema.
func failed(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

// problemOf is the refusal of a route: its problem document, which names the next action.
func problemOf(r *rpcx.Answer) error {
	if r.Header().Get("Content-Type") == "application/problem+json" {
		return refusal(r.Body.String())
	}
	return refusal(fmt.Sprintf("The route answered %d.", r.Status))
}
