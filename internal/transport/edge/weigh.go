package edge

import (
	"errors"
	"maps"
	"net/http"
	"strconv"

	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/limit"
)

// bytesPerRequest is how much of an answer one request pays for. A longer answer counts as so many requests.
const bytesPerRequest = 64 << 10

// weighed counts the length of an answer in the rate of its request: before it is sent where a GET has announced it,
// and otherwise once it was sent.
type weighed struct {
	http.ResponseWriter
	server  *Server
	request *http.Request
	class   limit.Class
	address string
	// begun says that the answer has begun, refused that it is another one, because the caller's rate does not suffice.
	begun, refused bool
	// counted is what is counted already, in requests beyond the first one.
	counted int
	sent    int64
}

var errRefused = errors.New("the rate does not suffice for the answer")

// WriteHeader implements http.ResponseWriter.
func (w *weighed) WriteHeader(code int) {
	if w.refused {
		return
	}
	if code >= http.StatusOK && !w.begun {
		w.begun = true
		if w.weigh() {
			return
		}
	}
	w.ResponseWriter.WriteHeader(code)
}

// weigh counts an announced answer that has nothing but the request's word to undo, and refuses it in its place.
func (w *weighed) weigh() (refused bool) {
	length, err := strconv.Atoi(w.Header().Get("Content-Length"))
	more := length / bytesPerRequest
	if err != nil || more == 0 || w.request.Method != http.MethodGet {
		return false
	}
	state, limited, err := w.server.cfg.Limits.Weigh(w.class, w.address, more)
	if f, over := fault.As(err); over {
		w.refused = true
		w.server.instead(w.ResponseWriter, w.request, f, state.Headers())
		return true
	}
	if w.counted = more; limited {
		maps.Copy(w.Header(), state.Headers())
	}
	return false
}

// Write implements http.ResponseWriter.
func (w *weighed) Write(p []byte) (int, error) {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if w.refused {
		return 0, errRefused
	}
	n, err := w.ResponseWriter.Write(p)
	w.sent += int64(n)
	return n, err
}

// settle counts what was sent and not counted before.
func (w *weighed) settle() {
	more := int(w.sent/bytesPerRequest) - w.counted
	if more > 0 && w.request.Method != http.MethodHead {
		w.server.cfg.Limits.Owe(w.class, w.address, more)
	}
}

// Flush implements http.Flusher, which connect asks for by its type.
func (w *weighed) Flush() {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
	if !w.refused {
		flush(w.ResponseWriter)
	}
}

// Unwrap serves http.ResponseController.
func (w *weighed) Unwrap() http.ResponseWriter { return w.ResponseWriter }
