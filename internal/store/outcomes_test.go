package store_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/roamcard/roamcard/internal/auth"
	"github.com/roamcard/roamcard/internal/fault"
	"github.com/roamcard/roamcard/internal/job"
	"github.com/roamcard/roamcard/internal/order"
	"github.com/roamcard/roamcard/internal/store"
	"github.com/roamcard/roamcard/internal/store/storetest"
)

// Whatever becomes of a statement of a port that requests reach, the caller gets one of the catalogue's faults, which
// says when to try again: the connection is lost before or after the server has it, the server refuses the transaction
// in favour of another, it does not answer in time. The end of the caller's own time is never any of these.
func TestEveryStatementFailsAsTheCatalogueSays(t *testing.T) {
	way := &faultyWay{}
	s := storetest.Open(t, proxied(t, storetest.URL(t), way.decide))
	found := 0
	for name, port := range map[string]any{
		"Challenges": s.Challenges(), "Sessions": s.Sessions(), "Orders": s.Orders(), "Cards": s.Cards(),
		"CardLinks": s.CardLinks(), "Esims": s.Esims(), "Closings": s.Closings(), "Screening": s.Screening(),
		"Events": s.Events(), "Admin": s.Admin(), "OperatorTokens": s.OperatorTokens(), "FeeJobs": s.FeeJobs(),
	} {
		of := reflect.ValueOf(port)
		for i := range of.NumMethod() {
			if call := of.Method(i); asks(call.Type()) && way.tries(t, name+"."+of.Type().Method(i).Name, call) {
				found++
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d methods of ports ask the database", found)
	}
}

// faultyWay is a way to the database on which one statement fails.
type faultyWay struct {
	mu     sync.Mutex
	at, is int // which statement of the call fails, and which one is next
	fail   func() cut
	failed bool
}

// wakeUp is the statement of a wake-up, which no caller waits for.
var wakeUp = executing("SELECT pg_notify($1, p) FROM unnest($2::text[]) AS p")

func (w *faultyWay) decide(sent []byte) cut {
	if sent[0] == 'P' || !bytes.Contains(sent, []byte("\x00stmtcache_")) || bytes.Contains(sent, wakeUp) {
		return pass
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.is++; w.is != w.at || w.fail == nil {
		return pass
	}
	w.failed = true
	return w.fail()
}

// set makes the statement at a place fail, and tells how many there were since the last time, and whether one failed.
func (w *faultyWay) set(at int, fail func() cut) (statements int, failed bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	statements, failed = w.is, w.failed
	w.at, w.is, w.fail, w.failed = at, 0, fail, false
	return statements, failed
}

// tries makes each statement of a call fail in each way. It reports whether there were any.
func (w *faultyWay) tries(t *testing.T, name string, call reflect.Value) bool {
	w.set(0, nil)
	ok, usual := tried(t.Context(), call)
	statements, _ := w.set(0, nil)
	if !ok {
		return false
	}
	_, again := tried(t.Context(), call) // what is there already
	for at := 1; at <= min(statements, 4); at++ {
		for way, what := range map[string]cut{
			"lost before": cutBefore, "lost after": cutAfter, "refused": refuse, "silent": silence, "left": pass,
		} {
			// Silence takes its time, and what is read of all events may take minutes.
			if what == silence && (at != 1 || strings.HasPrefix(name, "Events.")) {
				continue
			}
			ctx, leave := context.WithCancel(t.Context())
			if what == silence {
				ctx = store.WithCallTimeout(ctx, 200*time.Millisecond)
			}
			w.set(at, func() cut {
				if way == "left" {
					leave()
				}
				return what
			})
			_, err := tried(ctx, call)
			leave()
			if _, failed := w.set(0, nil); !failed || err == nil || same(err, usual) || same(err, again) {
				continue
			}
			f, told := fault.As(err)
			switch {
			case way == "left":
				if !told || !f.OfCaller() {
					t.Errorf("%s, whose caller leaves at statement %d: %v", name, at, err)
				}
			case expected(err):
			case !told, f.Status != http.StatusServiceUnavailable, f.RetryAfter == 0:
				t.Errorf("%s, statement %d %s: %v", name, at, way, err)
			}
		}
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	if _, err := tried(gone, call); statements > 0 && fault.Of(err) != fault.Canceled && !same(err, usual) {
		t.Errorf("%s for a caller that has gone: %v", name, err)
	}
	return statements > 0
}

func same(err, usual error) bool { return usual != nil && err != nil && err.Error() == usual.Error() }

// expected are errors that say what the database answered.
func expected(err error) bool {
	for _, known := range []error{
		store.ErrNotFound, store.ErrDuplicate, auth.ErrNotFound, order.ErrNotFound, job.ErrLeaseLost,
	} {
		if errors.Is(err, known) {
			return true
		}
	}
	return false
}

// asks reports a method that takes a context and may fail.
func asks(method reflect.Type) bool {
	return method.NumIn() > 0 && method.In(0) == reflect.TypeFor[context.Context]() && method.NumOut() > 0 &&
		method.Out(method.NumOut()-1) == reflect.TypeFor[error]()
}

// tried is the error of a call with some arguments; ok is false when it does not work with them.
func tried(ctx context.Context, call reflect.Value) (ok bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			ok, err = false, fmt.Errorf("panic: %v", p)
		}
	}()
	args := []reflect.Value{reflect.ValueOf(ctx)}
	for i := 1; i < call.Type().NumIn(); i++ {
		if call.Type().IsVariadic() && i == call.Type().NumIn()-1 {
			break
		}
		args = append(args, some(call.Type().In(i), 0))
	}
	answers := call.Call(args)
	err, _ = answers[len(answers)-1].Interface().(error)
	return true, err
}

// some is a value of a type that is not zero, as far as it can be.
func some(of reflect.Type, depth int) reflect.Value {
	v := reflect.New(of).Elem()
	switch {
	case of == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)))
	case of.Kind() == reflect.String:
		v.SetString("x")
	case of.Kind() == reflect.Array && of.Elem().Kind() == reflect.Uint8:
		v.Index(of.Len() - 1).SetUint(7)
	case v.CanInt():
		v.SetInt(1)
	case v.CanUint():
		v.SetUint(1)
	case of.Kind() == reflect.Slice && depth < 4:
		if of.Elem().Kind() == reflect.Uint8 {
			return reflect.ValueOf([]byte("{}")).Convert(of)
		}
		v = reflect.Append(v, some(of.Elem(), depth+1))
	case of.Kind() == reflect.Struct && depth < 4:
		for i := range of.NumField() {
			if of.Field(i).IsExported() {
				v.Field(i).Set(some(of.Field(i).Type, depth+1))
			}
		}
	case of.Kind() == reflect.Func:
		return reflect.MakeFunc(of, func([]reflect.Value) (zero []reflect.Value) {
			for i := range of.NumOut() {
				zero = append(zero, reflect.Zero(of.Out(i)))
			}
			return zero
		})
	}
	return v
}
