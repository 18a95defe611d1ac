package rest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	roamcardv1 "github.com/roamcard/roamcard/gen/go/roamcard/v1"
	"github.com/roamcard/roamcard/internal/api"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/x402"
)

// recorded holds an inner answer until it can be rewritten.
type recorded struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (a *recorded) Header() http.Header {
	if a.header == nil {
		a.header = http.Header{}
	}
	return a.header
}

func (a *recorded) WriteHeader(status int) {
	if a.status == 0 {
		a.status = status
	}
}

func (a *recorded) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.body.Write(p)
}

// send rewrites a Connect answer to REST.
func (rt *route) send(w http.ResponseWriter, r *http.Request, answer *recorded) {
	for name, values := range answer.Header() {
		if !ofConnect(name) {
			w.Header()[name] = values
		}
	}
	if answer.status != http.StatusOK {
		problem, err := rt.problem(r, answer)
		if err != nil {
			rt.log.ErrorContext(r.Context(), "an answer cannot be shown", "procedure", rt.procedure, "status", answer.status, "error", err)
		}
		write(w, problem)
		return
	}
	body, err := rt.compact(answer.body.Bytes())
	if err != nil {
		rt.log.ErrorContext(r.Context(), "an answer cannot be shown", "procedure", rt.procedure, "status", answer.status, "error", err)
		Problem(w, r, fault.New(fault.Internal, ""))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(rt.success())
	if w.Header().Get(x402.HeaderResponse) != "" {
		faultpoint.ReachAfter("answer.half", func() {
			_, _ = w.Write(body[:len(body)/2])
			_ = http.NewResponseController(w).Flush()
			body = body[len(body)/2:]
		})
	}
	// A caller that has gone away is no failure of ours.
	_, _ = w.Write(body)
}

// success is the status that the method's policy gives a good answer.
func (rt *route) success() int {
	if status := rt.policy.GetSuccessStatus(); status > 0 {
		return int(status)
	}
	return http.StatusOK
}

// ofConnect says which headers of an answer belong to the inner call alone.
func ofConnect(name string) bool {
	switch name {
	case "Accept-Encoding", "Content-Encoding", "Content-Length", "Content-Type", "Trailer", "Transfer-Encoding":
		return true
	}
	return strings.HasPrefix(name, "Connect-") || strings.HasPrefix(name, "Trailer-")
}

// compact is the answer without protojson's random spacing; of a response_body, only that member.
func (rt *route) compact(body []byte) ([]byte, error) {
	if rt.answerField != nil {
		var members map[string]json.RawMessage
		if err := json.Unmarshal(body, &members); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
		member, ok := members[rt.answerField.JSONName()]
		if !ok {
			return nil, fmt.Errorf("the answer lacks %s", rt.answerField.FullName())
		}
		body = member
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, body); err != nil {
		return nil, fmt.Errorf("compact the answer: %w", err)
	}
	return compact.Bytes(), nil
}

// problem reads the problem out of a Connect error. It always gives one to show; with it comes an
// error when the answer was not what Connect sends.
func (rt *route) problem(r *http.Request, answer *recorded) (*roamcardv1.Problem, error) {
	f, problem, err := readError(answer.body.Bytes(), rt.input)
	switch {
	case err != nil:
		f = fault.New(fault.Internal, "")
	case problem != nil:
		return problem, nil
	}
	return api.ProblemOf(r.Context(), f), err
}

// readError finds the most telling thing in a Connect error: our problem, else the rules that were
// broken, else the code.
func readError(body []byte, input protoreflect.MessageDescriptor) (*fault.Fault, *roamcardv1.Problem, error) {
	var wire struct {
		Code    string
		Details []struct{ Type, Value string }
	}
	if err := json.Unmarshal(body, &wire); err != nil {
		return nil, nil, fmt.Errorf("read the error: %w", err)
	}
	for _, detail := range wire.Details {
		value, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(detail.Value, "="))
		if err != nil {
			return nil, nil, fmt.Errorf("read the detail %s: %w", detail.Type, err)
		}
		switch detail.Type {
		case "roamcard.v1.Problem":
			var problem roamcardv1.Problem
			if err := proto.Unmarshal(value, &problem); err != nil {
				return nil, nil, fmt.Errorf("read the problem: %w", err)
			}
			if problem.GetStatus() < 400 || problem.GetStatus() > 599 {
				return nil, nil, fmt.Errorf("the problem %s has the status %d", problem.GetCode(), problem.GetStatus())
			}
			return nil, &problem, nil
		case "buf.validate.Violations":
			var violations validate.Violations
			if err := proto.Unmarshal(value, &violations); err != nil {
				return nil, nil, fmt.Errorf("read the violations: %w", err)
			}
			return api.Malformed(api.ViolationFields(&violations, input)...), nil, nil
		}
	}
	var code connect.Code
	if err := code.UnmarshalText([]byte(wire.Code)); err != nil {
		return nil, nil, errors.New("the error has no code")
	}
	return api.FaultOfCode(code), nil, nil
}
