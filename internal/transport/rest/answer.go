package rest

import (
	"net/http"
	"strconv"

	"google.golang.org/protobuf/proto"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/faultpoint"
	"github.com/roamcard/roamcard/internal/transport/rpcx"
	"github.com/roamcard/roamcard/internal/x402"
)

// send answers with a message; with a response_body, with that member of it.
func (rt *route) send(w http.ResponseWriter, r *http.Request, message proto.Message) {
	var body []byte
	var err error
	if rt.answerField == nil {
		body, err = rpcx.MarshalJSON(message)
	} else {
		body, err = rpcx.MarshalField(message, rt.answerField)
	}
	if err != nil {
		rt.unshown(w, r, err)
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
	// A failed write means that the caller has disconnected.
	_, _ = w.Write(body)
}

// unshown answers in place of what cannot be shown.
func (rt *route) unshown(w http.ResponseWriter, r *http.Request, err error) {
	rt.log.ErrorContext(r.Context(), "an answer cannot be shown", "procedure", rt.procedure, "error", err)
	Problem(w, r, fault.New(fault.Internal, ""))
}

// success is the status of a successful answer by the method's policy.
func (rt *route) success() int {
	if status := rt.policy.GetSuccessStatus(); status > 0 {
		return int(status)
	}
	return http.StatusOK
}
