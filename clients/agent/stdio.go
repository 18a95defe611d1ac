package agent

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Stdio is the protocol over two streams. A request whose id the SDK could not give back as it came is refused: the SDK
// reads numbers as float64 and cuts off their fractions, so that two requests would have answers of one id. A line that
// is no message is refused, too: the SDK would end the session at it, while a purchase is waited for.
func Stdio(in io.ReadCloser, out io.Writer) sdk.Transport {
	w := &whole{out: out}
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, sdk.DefaultMaxLineLength)
	return &sdk.IOTransport{Reader: &requests{Closer: in, lines: lines, refused: w}, Writer: w}
}

// whole keeps messages apart that are written at once.
type whole struct {
	out io.Writer
	mu  sync.Mutex
}

// Close implements io.Closer. The output is not ours to close.
func (w *whole) Close() error { return nil }

// Write implements io.Writer.
func (w *whole) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// requests are the messages that are passed on, each on a line.
type requests struct {
	io.Closer
	lines   *bufio.Scanner
	refused io.Writer
	line    []byte
}

// Read implements io.Reader.
func (r *requests) Read(p []byte) (int, error) {
	for len(r.line) == 0 {
		if !r.lines.Scan() {
			if errors.Is(r.lines.Err(), bufio.ErrTooLong) {
				return 0, errors.New("the message is too long")
			}
			return 0, cmp.Or(r.lines.Err(), io.EOF)
		}
		message := bytes.Clone(bytes.TrimSpace(r.lines.Bytes()))
		if len(message) == 0 {
			continue
		}
		line, err := r.pass(message)
		if err != nil {
			return 0, err
		}
		r.line = line
	}
	n := copy(p, r.line)
	r.line = r.line[n:]
	return n, nil
}

// pass is what is passed on of a message or a batch: nothing of what is refused.
func (r *requests) pass(message json.RawMessage) ([]byte, error) {
	switch {
	case !json.Valid(message):
		return nil, r.answer(json.RawMessage("null"), -32700, "The line is no JSON.")
	case message[0] == '[':
		var batch, passed []json.RawMessage
		if err := json.Unmarshal(message, &batch); err != nil {
			return nil, err
		}
		for _, one := range batch {
			switch refused, err := r.refuse(one); {
			case err != nil:
				return nil, err
			case !refused:
				passed = append(passed, one)
			}
		}
		if len(passed) == 0 && len(batch) > 0 {
			return nil, nil
		}
		if len(passed) < len(batch) {
			var err error
			if message, err = json.Marshal(passed); err != nil {
				return nil, err
			}
		}
		return append(message, '\n'), nil
	case !isMessage(message):
		return nil, r.answer(json.RawMessage("null"), -32600, "The line is no message of JSON-RPC 2.0.")
	}
	if refused, err := r.refuse(message); refused || err != nil {
		return nil, err
	}
	return append(message, '\n'), nil
}

// isMessage reports whether the SDK takes a text for a message: a request, a notification or an answer.
func isMessage(text json.RawMessage) bool {
	var m map[string]json.RawMessage
	var version, method string
	if json.Unmarshal(text, &m) != nil || json.Unmarshal(m["jsonrpc"], &version) != nil || version != "2.0" {
		return false
	}
	if m["method"] != nil {
		return json.Unmarshal(m["method"], &method) == nil && method != ""
	}
	return m["id"] != nil && (m["result"] != nil || m["error"] != nil)
}

// refuse answers a request whose id cannot be given back. Ids without a method are those of our own requests.
func (r *requests) refuse(message json.RawMessage) (refused bool, err error) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
	}
	if json.Unmarshal(message, &m) != nil || m.ID == nil || m.Method == nil || carried(m.ID) {
		return false, nil
	}
	if c := m.ID[0]; c == '{' || c == '[' || c == 't' || c == 'f' {
		m.ID = json.RawMessage("null")
	}
	return true, r.answer(m.ID, -32600, "The id must be a string or a short integer.")
}

// answer answers what is refused.
func (r *requests) answer(id json.RawMessage, code int, why string) error {
	var answer bytes.Buffer
	encoder := json.NewEncoder(&answer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(map[string]any{
		"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": why},
	})
	if err == nil {
		_, err = r.refused.Write(answer.Bytes())
	}
	return err
}

var shortInteger = regexp.MustCompile(`^(0|-?[1-9][0-9]{0,14})$`)

// carried reports whether the SDK gives an id back: a short integer as it is written, a string by its value.
func carried(id json.RawMessage) bool {
	if id[0] != '"' {
		return shortInteger.Match(id) || string(id) == "null"
	}
	var text string
	return json.Unmarshal(id, &text) == nil && !bytes.ContainsRune([]byte(text), '\uFFFD')
}
