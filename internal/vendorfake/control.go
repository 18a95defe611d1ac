package vendorfake

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
)

// Control adds the control API below a path that ends in a slash: the books, and the faults that are still to come. It
// needs no key, so it answers this machine only.
func (f *Front) Control(mux *http.ServeMux, path string, books func() (any, error)) {
	mux.HandleFunc("GET "+path+"books", Local(func(Call) (any, error) { return books() }))
	mux.HandleFunc("GET "+path+"faults", Local(func(Call) (any, error) {
		can := map[string][]Mode{}
		for _, op := range f.vendor.Ops {
			can[op] = f.Modes(op)
		}
		return map[string]any{"faults": f.standing(), "modes": can}, nil
	}))
	mux.HandleFunc("POST "+path+"faults", Local(func(c Call) (any, error) {
		asked := Fault{Times: 1}
		if err := Read(c.Body, &asked); err != nil {
			return nil, Mistake("read a fault: " + err.Error())
		}
		if !f.Add(asked) {
			return nil, Mistake(fmt.Sprintf("there is no such fault: of %v, %s can go wrong by %v",
				f.vendor.Ops, asked.Op, f.Modes(asked.Op)))
		}
		return asked, nil
	}))
	mux.HandleFunc("DELETE "+path+"faults", Local(func(Call) (any, error) {
		f.Clear()
		return struct{}{}, nil
	}))
}

// Mistake is the caller's: a request that cannot be done.
type Mistake string

// Error implements error.
func (m Mistake) Error() string { return string(m) }

// HTTPStatus is the answer's.
func (m Mistake) HTTPStatus() int { return http.StatusBadRequest }

// Local serves a request of the control API. An error is the fake's own failure, unless it has a status of HTTP.
func Local(do func(Call) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status int, message string) { JSON(status, map[string]string{"error": message}).Write(w) }
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		if err != nil || !net.ParseIP(host).IsLoopback() {
			refuse(http.StatusForbidden, "the control API answers this machine only")
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			refuse(http.StatusBadRequest, "the body cannot be read")
			return
		}
		answer, err := do(Call{Request: r, Body: body})
		if err != nil {
			status := http.StatusInternalServerError
			if own, ok := errors.AsType[interface {
				error
				HTTPStatus() int
			}](err); ok {
				status = own.HTTPStatus()
			}
			refuse(status, err.Error())
			return
		}
		JSON(http.StatusOK, answer).Write(w)
	}
}
