package simulation_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// wire is a connection of a process to PostgreSQL, on the bus: what is sent waits for the connection's turn, which
// lasts until the server is ready for the next transaction. So one transaction is over before the next begins, whoever
// makes it, and no lock is waited for.
type wire struct {
	of    *process
	bus   *bus
	world *database
	// at is the path of the server's socket.
	at    string
	inner *session

	mu sync.Mutex
	// out was written and not sent, and in was received and not read.
	out, in []byte
	// changed is closed when out, the deadline or the end change.
	changed  chan struct{}
	deadline time.Time
	closed   bool
	// began says that the start-up message was sent.
	began bool

	// What follows belongs to the one who reads.
	front, back messages
	// open is the turn; nil outside of a transaction.
	open *grant
	// rounds counts the round trips of the turn.
	rounds int
	// silent says that the turn is not one of a call.
	silent bool
	// untold says that the session was not told the time of the turn.
	untold bool
	// stmts are the statements that were prepared, by name.
	stmts map[string]string
}

// database is where the wires lead, with its clock.
type database struct {
	bus *bus
	url string
	// dial is how those who look reach it, see connect.
	dial pgconn.DialFunc
	// own is the connection of those who look, one at a time; nil before.
	own *pgx.Conn
	now func() time.Time
	// mu guards free, which are sessions that nobody has.
	mu   sync.Mutex
	free []*session
}

// session is one of the server's. To begin one costs as much as dozens of statements, and the processes that die begin
// thousands: what one has left is discarded, and the next one has it as if it were new.
type session struct {
	net.Conn
	// start is the message that it began with, and hello what the server said to that.
	start, hello []byte
	// buf is what was read last, for the one whose turn it is.
	buf []byte
}

// said reads what the server says, which is good until the next call.
func (s *session) said() ([]byte, error) {
	if s.buf == nil {
		s.buf = make([]byte, 64<<10)
	}
	n, err := s.Read(s.buf)
	return s.buf[:n], err
}

// send sends all of b.
func (s *session) send(b []byte) error {
	_, err := s.Write(b)
	return err
}

// idle takes a session that began with a message; nil where nobody has left one.
func (d *database) idle(start []byte) *session {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, s := range d.free {
		if bytes.Equal(s.start, start) {
			d.free = slices.Delete(d.free, i, i+1)
			return s
		}
	}
	return nil
}

// keep leaves a session for others. What is in it holds up nobody meanwhile: its transaction is over, and the program
// takes no locks for whole sessions.
func (d *database) keep(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.free = append(d.free, s)
}

// look is the connection, past the bus, of those who look at the world.
func (d *database) look(ctx context.Context) (_ *pgx.Conn, err error) {
	if d.own == nil || d.own.IsClosed() {
		d.own, err = connect(ctx, d.url, d.dial)
	}
	return d.own, err
}

// close ends the sessions that nobody has, and that of those who look, in the bubble that it was made in.
func (d *database) close(ctx context.Context) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, s := range d.free {
		s.Close()
	}
	d.free = nil
	if d.own != nil {
		d.own.Close(ctx)
	}
}

// dialer is how a process reaches the database.
func (d *database) dialer(of *process) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(_ context.Context, _, at string) (net.Conn, error) {
		if of.isDead() {
			return nil, errDead
		}
		w := &wire{of: of, bus: d.bus, world: d, at: at, changed: make(chan struct{}), stmts: map[string]string{}}
		if !of.hold(w) {
			return nil, errDead
		}
		return w, nil
	}
}

// before is what happens instead of a call; nil when it happens.
func (g grant) before(of *process) error {
	switch g.fate {
	case refused:
		return errBroken
	case crashBefore:
		of.kill()
		return errDead
	default:
		return nil
	}
}

// after is what happens instead of the answer to a call.
func (g grant) after(of *process, give <-chan struct{}) error {
	switch g.fate {
	case lost:
		return errBroken
	case crashAfter:
		of.kill()
		return errDead
	}
	fix(g.dice, "wait", 0) // for others, meanwhile: what it has thrown for itself may differ
	if !pause(g.answer, of.dead, give) || !of.goOn(g.answer, give) {
		if of.isDead() {
			return errDead
		}
		return errGone
	}
	fix(g.dice, "answer", 0)
	return nil
}

// Write implements net.Conn. Nothing is sent before the answer is asked for.
func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, net.ErrClosed
	}
	w.out = append(w.out, b...)
	w.wake()
	return len(b), nil
}

// wake wants the lock held.
func (w *wire) wake() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// Read implements net.Conn.
func (w *wire) Read(b []byte) (int, error) {
	for {
		w.mu.Lock()
		in, out, changed, closed, deadline := w.in, w.out, w.changed, w.closed, w.deadline
		if len(in) > 0 && !closed {
			n := copy(b, in)
			w.in = in[n:]
			w.mu.Unlock()
			return n, nil
		}
		w.mu.Unlock()
		switch {
		case closed:
			return 0, net.ErrClosed
		case len(out) > 0 || w.back.expects(w.front):
			if err := w.exchange(); err != nil {
				w.end(true)
				return 0, err
			}
			continue
		case !deadline.IsZero() && !time.Now().Before(deadline):
			return 0, os.ErrDeadlineExceeded
		}
		// Nobody is asked: a listener, who waits for what others say.
		wait := time.Duration(1 << 62)
		if !deadline.IsZero() {
			wait = time.Until(deadline)
		}
		pause(wait, changed, w.of.dead)
		if w.of.isDead() {
			w.cut()
			return 0, errDead
		}
	}
}

// exchange sends what was written, in the connection's turn, and receives what the server has to say.
func (w *wire) exchange() error {
	w.mu.Lock()
	out := w.out
	w.mu.Unlock()
	if (!w.began && isCancel(out)) || (w.began && len(out) > 0 && out[0] == 'X') {
		return io.EOF // a cancellation is lost on the way
	}
	if w.open == nil {
		if err := w.begin(w.describe(out)); err != nil {
			return err
		}
	}
	if len(out) > 0 {
		if w.rounds == w.open.rounds && !w.silent {
			if err := w.open.before(w.of); err != nil {
				return err
			}
			if w.open.fate == lost && w.rounds > 0 {
				return errBroken // the rest of the transaction is never sent
			}
		}
		w.rounds++
		w.mu.Lock()
		out = w.out
		w.out = nil
		w.mu.Unlock()
		if err := w.send(out); err != nil {
			return err
		}
	}
	if err := w.receive(); err != nil {
		return err
	}
	if !w.idle() {
		return nil
	}
	g := *w.open
	w.open = nil
	if w.silent {
		return nil
	}
	gone, end := w.gone()
	defer end()
	err := g.after(w.of, gone)
	if errors.Is(err, errGone) {
		err = os.ErrDeadlineExceeded
	}
	return err
}

// send sends what was written, in a turn's first message after the time. The first time it connects.
func (w *wire) send(out []byte) (err error) {
	if w.inner == nil {
		return w.connect(out)
	}
	told := w.untold
	w.untold = false
	if told {
		now := w.world.now().UTC().Format(time.RFC3339Nano)
		err = w.inner.send(append(query("SET simulation.now = '"+now+"'"), out...))
	} else {
		err = w.inner.send(out)
	}
	if err != nil {
		return err
	}
	w.sent(out)
	if !told {
		return nil
	}
	_, rest, err := w.answer()
	w.received(rest)
	return err
}

// connect sends a start-up message, or takes a session that began with the same one.
func (w *wire) connect(start []byte) (err error) {
	for w.inner = w.world.idle(start); w.inner != nil; w.inner = w.world.idle(start) {
		if err = w.inner.send(query("DISCARD ALL")); err == nil {
			if _, _, err = w.answer(); err == nil {
				break
			}
		}
		w.bus.bury(w.inner) // somebody has ended it
	}
	if w.inner == nil {
		conn, err := dialSocket(context.Background(), "", w.at)
		if err != nil {
			return err
		}
		w.inner = &session{Conn: conn, start: bytes.Clone(start)}
		if err := w.inner.send(start); err != nil {
			return err
		}
		if w.inner.hello, _, err = w.answer(); err != nil {
			return err
		}
	}
	w.sent(start)
	w.received(w.inner.hello)
	return nil
}

// begin waits for the connection's turn.
func (w *wire) begin(name string) error {
	gone, end := w.gone()
	defer end()
	var g grant
	var err error
	if w.silent = name == ""; w.silent {
		err = w.bus.quiet(w.of, gone)
	} else {
		g, err = w.bus.ask(w.of, "db "+name, gone)
	}
	if errors.Is(err, errGone) {
		return os.ErrDeadlineExceeded
	}
	if err != nil {
		return err
	}
	w.open, w.rounds, w.untold = &g, 0, w.began
	return nil
}

// gone is closed at the connection's deadline, or when it is closed. end stops looking.
func (w *wire) gone() (gone <-chan struct{}, end func()) {
	over, stop := make(chan struct{}), make(chan struct{})
	go func() {
		for {
			w.mu.Lock()
			deadline, closed, changed := w.deadline, w.closed, w.changed
			w.mu.Unlock()
			if closed || (!deadline.IsZero() && !time.Now().Before(deadline)) {
				close(over)
				return
			}
			wait := time.Duration(1 << 62)
			if !deadline.IsZero() {
				wait = time.Until(deadline)
			}
			pause(wait, changed, stop)
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	return over, sync.OnceFunc(func() { close(stop) })
}

// answer reads what the server says until it is ready, to what nobody but the simulation asks, and what it has said
// after that.
func (w *wire) answer() (said, rest []byte, err error) {
	for {
		b, err := w.inner.said()
		if err != nil {
			return said, nil, err
		}
		said = append(said, b...)
		if end := readyAfter(said); end > 0 {
			return said[:end], said[end:], nil
		}
	}
}

// readyAfter is where the first message ends by which a server says that it is ready; 0 where it does not.
func readyAfter(b []byte) (end int) {
	for len(b[end:]) >= 5 {
		kind, size := b[end], int(binary.BigEndian.Uint32(b[end+1:]))+1
		if len(b[end:]) < size {
			return 0
		}
		if end += size; kind == 'Z' {
			return end
		}
	}
	return 0
}

func query(sql string) []byte {
	b := append([]byte{'Q'}, binary.BigEndian.AppendUint32(nil, uint32(len(sql)+5))...)
	return append(append(b, sql...), 0)
}

// sent notes what was sent.
func (w *wire) sent(b []byte) {
	if !w.began {
		w.began = true
		w.front.asked++
		return
	}
	w.front.read(b)
	eachMessage(b, func(kind byte, body []byte) {
		if kind == 'P' {
			w.prepared(body)
		}
	})
}

// prepared notes a statement by its name.
func (w *wire) prepared(parse []byte) {
	name, rest, _ := bytes.Cut(parse, []byte{0})
	sql, _, _ := bytes.Cut(rest, []byte{0})
	w.stmts[string(name)] = short(string(sql))
}

// receive reads what the server says once, if it has not said anything yet.
func (w *wire) receive() error {
	w.mu.Lock()
	some := len(w.in) > 0
	w.mu.Unlock()
	if some {
		return nil
	}
	b, err := w.inner.said()
	if err == nil {
		w.received(b)
	}
	return err
}

// received is what the server has said.
func (w *wire) received(b []byte) {
	w.back.read(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.in = append(w.in, b...)
}

// idle reports whether the server waits for the next transaction.
func (w *wire) idle() bool {
	return w.back.ready >= w.front.asked && w.back.status == 'I' && len(w.back.rest) == 0 && !w.back.expects(w.front)
}

// cut ends the connection. What the server had begun is rolled back before anybody else has a turn.
func (w *wire) cut() { w.end(false) }

// end is cut. The session is kept for others where nothing is on its way: between turns, or by who has read.
func (w *wire) end(read bool) {
	w.mu.Lock()
	if w.closed {
		w.mu.Unlock()
		return
	}
	w.closed = true
	w.wake()
	w.mu.Unlock()
	w.of.drop(w)
	if w.inner == nil {
		return
	}
	over := w.began
	if w.open != nil && w.began {
		over = w.abort() && read
	}
	if over {
		w.world.keep(w.inner)
	} else {
		w.bus.bury(w.inner)
	}
}

// abort reads to the end of what was sent and rolls back, and reports whether that is over.
func (w *wire) abort() bool {
	sync := append([]byte{'S'}, 0, 0, 0, 4)
	if err := w.inner.send(append(sync, query("ROLLBACK")...)); err != nil {
		return false
	}
	want := w.front.asked + 2
	for w.back.ready < want {
		b, err := w.inner.said()
		if err != nil {
			return false
		}
		w.back.read(b)
	}
	return true
}

// Close implements net.Conn.
func (w *wire) Close() error { w.cut(); return nil }

// LocalAddr implements net.Conn.
func (w *wire) LocalAddr() net.Addr { return w.RemoteAddr() }

// RemoteAddr implements net.Conn.
func (w *wire) RemoteAddr() net.Addr { return &net.UnixAddr{Name: "postgres", Net: "unix"} }

// SetDeadline implements net.Conn. It is in virtual time.
func (w *wire) SetDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	w.wake()
	return nil
}

// SetReadDeadline implements net.Conn.
func (w *wire) SetReadDeadline(t time.Time) error { return w.SetDeadline(t) }

// SetWriteDeadline implements net.Conn. Writing takes no time.
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

func isCancel(b []byte) bool {
	return len(b) == 16 && binary.BigEndian.Uint32(b[4:]) == 80877102
}

// describe names what is sent first in a transaction: by the first statement that says what it is for, and by all of
// them with their arguments. It is empty for what belongs to no call: a start, a statement that is only prepared, a
// sign of life.
func (w *wire) describe(out []byte) string {
	first, all, sum := "", fnv.New32a(), uint32(0)
	add := func(sql string) {
		all.Write([]byte(sql))
		if first == "" || first == "begin" || strings.HasPrefix(first, "SELECT set_config") {
			first = sql
		}
	}
	if !w.began {
		return ""
	}
	eachMessage(out, func(kind byte, body []byte) {
		switch kind {
		case 'Q':
			if sql := short(string(bytes.TrimRight(body, "\x00"))); sql != "-- ping" {
				add(sql)
			}
		case 'P':
			w.prepared(body)
		case 'B':
			_, rest, _ := bytes.Cut(body, []byte{0})
			name, rest, _ := bytes.Cut(rest, []byte{0})
			add(w.stmts[string(name)])
			sum = 31*sum + arguments(rest)
		}
	})
	if first == "" {
		return ""
	}
	return fmt.Sprintf("%s %08x", first, all.Sum32()+sum)
}

// eachMessage goes through the messages of the client.
func eachMessage(b []byte, see func(kind byte, body []byte)) {
	for len(b) >= 5 {
		size := int(binary.BigEndian.Uint32(b[1:]))
		if size < 4 || len(b) < size+1 {
			return
		}
		see(b[0], b[5:size+1])
		b = b[size+1:]
	}
}

// word is what our own names are, of a kind, a class or a status; and whose something is: an order, a wallet, a key.
var word = regexp.MustCompile("^([a-z_]{1,32}|ord_.*|0x[0-9a-fA-F]{40}|key-.*)$")

// drawn is how many bytes at an id's end have no time in them.
const drawn = 7

// arguments are those of a statement that are the same in each run of a seed, as a number. It does not depend on the
// order of what is in an array.
func arguments(bind []byte) (sum uint32) {
	b := reader(bind)
	for range b.u16() { // formats
		b.u16()
	}
	for i := range b.u16() {
		sum += argument(b.value(), uint32(i+1))
	}
	return sum
}

func argument(v []byte, place uint32) uint32 {
	if len(v) == len(uuid.UUID{}) || word.Match(v) {
		// The last bytes: ids begin with a time that never runs back while the test's process lives.
		h := fnv.New32a()
		h.Write(v[max(0, len(v)-drawn):])
		return h.Sum32() * place
	}
	const header = 20
	if len(v) < header || binary.BigEndian.Uint32(v) != 1 || binary.BigEndian.Uint32(v[4:]) > 1 {
		return 0
	}
	b, sum := reader(v[header:]), uint32(0)
	for range int(binary.BigEndian.Uint32(v[12:])) {
		sum += argument(b.value(), place)
	}
	return sum
}

// reader reads numbers and values of PostgreSQL's messages. What is missing is zero.
type reader []byte

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(*r) {
		*r = nil
		return make([]byte, min(max(n, 0), 8))
	}
	b := (*r)[:n]
	*r = (*r)[n:]
	return b
}

func (r *reader) u16() int { return int(binary.BigEndian.Uint16(r.take(2))) }

// value is preceded by its length, which is negative for none.
func (r *reader) value() []byte {
	if n := int(int32(binary.BigEndian.Uint32(r.take(4)))); n > 0 && n <= len(*r) {
		return r.take(n)
	}
	return nil
}

// short is the beginning of a statement.
func short(sql string) string {
	const most = 60
	sql = strings.Join(strings.Fields(sql), " ")
	return sql[:min(len(sql), most)]
}

// messages counts what one side of a connection has said.
type messages struct {
	rest []byte
	// asked counts what the server answers with ready.
	asked int
	// ready counts the server's, and status is the last one's.
	ready  int
	status byte
	// flushed says that what is sent is to be answered before the server is ready.
	flushed bool
}

// read takes the next bytes.
func (m *messages) read(b []byte) {
	b = append(m.rest, b...)
	for len(b) >= 5 {
		size := int(binary.BigEndian.Uint32(b[1:]))
		if len(b) < size+1 {
			break
		}
		switch b[0] {
		case 'Q', 'S': // of the client: a statement, or the end of several; the server's S is a parameter, and not counted on
			m.asked++
			m.flushed = false
		case 'H':
			m.flushed = true
		case 'Z':
			m.ready++
			m.status = b[5]
		}
		b = b[size+1:]
	}
	m.rest = bytes.Clone(b)
}

// expects reports whether the server has more to say to what the client has sent.
func (m messages) expects(client messages) bool {
	return m.ready < client.asked || client.flushed || len(m.rest) > 0
}
