package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/roamcard/roamcard/clients/go/roamcard"
	"github.com/roamcard/roamcard/internal/secret/custody"
)

// Shown is all that a model learns of a card or an eSIM that was shown.
type Shown struct {
	Shown  bool   `json:"shown" jsonschema:"whether the user has seen it"`
	Reason string `json:"reason,omitempty" jsonschema:"why not, or that it is not known: waiting_for_user, not_pressed, timeout, opened_elsewhere, opened_in_browser, interrupted, cancelled, browser_only or no_window"`
}

// waiting says that a window waits for the user.
const waiting = "waiting_for_user"

type esimIn struct {
	OrderID string `json:"orderId" jsonschema:"the order of the eSIM"`
}

func (s *Server) showCard(ctx context.Context, _ call, in cardIn) (Shown, error) {
	return s.show(ctx, "card "+in.CardID, func(ctx context.Context, client *roamcard.Client) (roamcard.Presented, error) {
		id, err := s.oneCard(ctx, client, in.CardID, roamcard.CardActive)
		if err != nil {
			return roamcard.Presented{}, err
		}
		return client.Cards.Reveal(ctx, id, s.Presenter)
	})
}

func (s *Server) showESIM(ctx context.Context, _ call, in esimIn) (Shown, error) {
	if in.OrderID == "" {
		return Shown{}, problem("arguments_invalid", fixArguments, "orderId is empty")
	}
	return s.show(ctx, "esim "+in.OrderID, func(ctx context.Context, client *roamcard.Client) (roamcard.Presented, error) {
		return client.ESIM.Install(ctx, in.OrderID, s.Presenter)
	})
}

// presenting shows something until it was seen or not.
type presenting = func(context.Context, *roamcard.Client) (roamcard.Presented, error)

// window shows one thing, until closed is closed.
type window struct {
	of     string
	closed chan struct{}
	// The rest is written before closed is closed.
	seen roamcard.Presented
	err  error
	at   time.Time
}

// toldWithin is how long after a window has closed the next call for the same thing is told so, instead of opening
// another one: the call that had opened it was answered before.
const toldWithin = time.Minute

// show shows something until its presenter ends, and answers in time: the window outlives the call, and another call
// for the same thing waits for it, too. If the wallet opens too late nothing is shown: nobody expects a window by then.
func (s *Server) show(ctx context.Context, of string, present presenting) (Shown, error) {
	wait := time.NewTimer(answerWithin)
	defer wait.Stop()
	opening, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	client, _, err := s.payer(opening)
	if err != nil {
		if opening.Err() != nil && ctx.Err() == nil {
			err = stillWorking()
		}
		return Shown{}, err
	}
	w := s.windowOf(of, client, present)
	if w.of != of {
		return Shown{Reason: waiting}, nil // one window at a time: a model must not fill the screen
	}
	select {
	case <-w.closed:
		s.window.CompareAndSwap(w, nil) // it is told
		return s.shown(w.seen, w.err)
	case <-wait.C:
		return Shown{Reason: waiting}, nil
	case <-ctx.Done():
		return Shown{}, ctx.Err() // which ends with the session, too
	}
}

// windowOf is the window that is open, or one of the same thing whose end nobody was told, or else a new one.
func (s *Server) windowOf(of string, client *roamcard.Client, present presenting) *window {
	made := &window{of: of, closed: make(chan struct{})}
	for {
		last := s.window.Load()
		if last != nil {
			select {
			case <-last.closed:
				if last.of == of && s.Now().Sub(last.at) < toldWithin {
					return last
				}
			default:
				return last
			}
		}
		if s.window.CompareAndSwap(last, made) {
			break
		}
	}
	s.jobs.spawn(func() {
		defer func() {
			made.at = s.Now()
			close(made.closed)
		}()
		defer s.recovered("show", &made.err)
		if made.seen, made.err = present(s.jobs.ctx, client); made.err != nil {
			s.Log.Warn("nothing was shown", slog.Any("error", made.err))
		}
	})
	return made
}

func (s *Server) shown(seen roamcard.Presented, err error) (Shown, error) {
	if errors.Is(err, errNoWindow) || errors.Is(err, roamcard.ErrNoTerminal) {
		return Shown{Reason: "no_window"}, nil
	}
	if errors.Is(err, roamcard.ErrBrowserOnly) {
		return Shown{Reason: "browser_only"}, nil
	}
	return Shown{Shown: seen.Seen, Reason: seen.Reason}, err
}

// errNoWindow says that there is nothing to show a page in.
var errNoWindow = errors.New("no browser can be opened here")

// OpenBrowser opens pages in a program, or in the desktop's own browser. The address is on the program's command line,
// which everybody on this machine can read: it is that of a file, and no secret. The program gets neither key nor token
// of this one's environment.
func OpenBrowser(program []string) func(ctx context.Context, url string) error {
	return func(ctx context.Context, url string) error {
		command := program
		if len(command) == 0 {
			command = desktop()
		}
		if len(command) == 0 {
			return errNoWindow
		}
		// It outlives the call, and gets none of our streams: what it prints must not get between the messages.
		arguments := append(command[1:len(command):len(command)], url)
		cmd := custody.Command(context.WithoutCancel(ctx), nil, command[0], arguments...)
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("%w: start %s", errNoWindow, command[0])
		}
		go func() { _ = cmd.Wait() }() // the browser's exit code does not matter
		return nil
	}
}

// desktop is the command that opens a page here, or none.
func desktop() []string {
	command := map[string][]string{
		"darwin": {"open"}, "windows": {"rundll32", "url.dll,FileProtocolHandler"},
	}[runtime.GOOS]
	if command == nil && os.Getenv("DISPLAY")+os.Getenv("WAYLAND_DISPLAY") != "" {
		command = []string{"xdg-open"}
	}
	if command == nil {
		return nil
	}
	if _, err := exec.LookPath(command[0]); err != nil {
		return nil
	}
	return command
}
