package roamcard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// TerminalPresenter shows a card, or an eSIM, on the controlling terminal's other screen, and clears it at a key or
// after a minute. Pipes and files never get it.
type TerminalPresenter struct {
	// For is how long the card stays; zero means a minute.
	For time.Duration
}

// ErrNoTerminal says that there is no terminal to show a card on.
var ErrNoTerminal = errors.New("there is no terminal to show the card on")

// Present implements Presenter.
func (p TerminalPresenter) Present(ctx context.Context, c Credentials) (Presented, error) {
	return p.present(ctx, Grouped(c.Number),
		fmt.Sprintf("valid to %02d/%d   code %s", c.ExpiryMonth, c.ExpiryYear, c.SecurityCode))
}

// PresentESIM implements ESIMPresenter.
func (p TerminalPresenter) PresentESIM(ctx context.Context, e ESIM) (Presented, error) {
	picture, err := QR(e.LPA.Reveal())
	if err != nil {
		return Presented{}, err
	}
	return p.present(ctx, append(strings.Split(picture, "\n"), e.LPA.Reveal(), "SM-DP+ address "+e.SMDPAddress.Reveal(),
		"activation code "+e.MatchingID.Reveal(), "ICCID "+e.ICCID.Reveal())...)
}

func (p TerminalPresenter) present(ctx context.Context, lines ...string) (_ Presented, err error) {
	tty, err := os.OpenFile("/dev/tty", os.O_RDWR, 0)
	if err != nil {
		return Presented{}, ErrNoTerminal
	}
	old, err := term.MakeRaw(int(tty.Fd()))
	if err != nil {
		return Presented{}, errors.Join(ErrNoTerminal, tty.Close())
	}
	const otherScreen, ownScreen = "\x1b[?1049h\x1b[2J\x1b[H", "\x1b[2J\x1b[?1049l"
	defer func() {
		_, left := fmt.Fprint(tty, ownScreen)
		err = errors.Join(err, left, term.Restore(int(tty.Fd()), old), tty.Close())
	}()
	_, err = fmt.Fprintf(tty, "%s\r\n  %s\r\n\r\n  Any key clears this.\r\n", otherScreen, strings.Join(lines, "\r\n  "))
	if err != nil {
		return Presented{}, fmt.Errorf("write to the terminal: %w", err)
	}
	wait := p.For
	if wait == 0 {
		wait = presentFor
	}
	key := make(chan struct{})
	go func() {
		// Ends with the key, or with the terminal, which is closed below it.
		_, _ = tty.Read(make([]byte, 1))
		close(key)
	}()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-key:
	case <-timer.C:
	case <-ctx.Done():
	}
	return Presented{Seen: true}, nil
}
