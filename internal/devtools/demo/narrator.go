package demo

import (
	"fmt"
	"io"
	"time"
)

// narrator prints numbered steps, what happened in each, and the time it took.
type narrator struct {
	out        io.Writer
	quiet, tty bool
	now        func() time.Time
	steps      []Step
	open       bool
	since      time.Time
	// phase is what is being waited for; frame is the spinner's picture.
	phase string
	frame int
}

// begin starts a step and ends the one before.
func (n *narrator) begin(name string) {
	n.end()
	n.open, n.since = true, n.now()
	n.steps = append(n.steps, Step{Name: name})
	n.print("\n%2d  %s\n", len(n.steps), name)
}

// end ends the step that is open.
func (n *narrator) end() {
	if !n.open {
		return
	}
	n.settle()
	took := n.now().Sub(n.since)
	n.open = false
	n.steps[len(n.steps)-1].Millis = took.Milliseconds()
	n.print("    (%s)\n", took.Round(time.Millisecond))
}

// say adds a line to the step.
func (n *narrator) say(format string, args ...any) {
	n.settle()
	n.print("    "+format+"\n", args...)
}

// wait shows what is being waited for: a line drawn over itself on a terminal, elsewhere one line for
// each new phase.
func (n *narrator) wait(phase string) {
	if n.tty {
		frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
		n.print("\r\x1b[K    %c %s, %.1f s", frames[n.frame%len(frames)], phase, n.now().Sub(n.since).Seconds())
		n.frame++
	} else if phase != n.phase {
		n.print("    … %s\n", phase)
	}
	n.phase = phase
}

// settle ends the line that was drawn over itself.
func (n *narrator) settle() {
	if n.phase != "" && n.tty {
		n.print("\r\x1b[K")
	}
	n.phase = ""
}

// print ignores errors: a run goes on when its output is closed.
func (n *narrator) print(format string, args ...any) {
	if !n.quiet {
		_, _ = fmt.Fprintf(n.out, format, args...)
	}
}
