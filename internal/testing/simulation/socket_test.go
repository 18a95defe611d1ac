package simulation_test

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"
	"unsafe"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// socket is a connection to PostgreSQL that the runtime does not know to wait: while it does, nothing else runs, and
// the thread stays. Otherwise, as the machine has it, another thread may go on, with dice of its own.
type socket struct{ fd int }

// dialSocket reaches a server by the path of its socket. Only what runs in a world may: pgx begins to read before it
// has asked when writing takes long, by the clock of where it runs, and would wait here for what comes only after it.
func dialSocket(_ context.Context, _, path string) (net.Conn, error) {
	runtime.LockOSThread() // this much the runtime knows
	defer runtime.UnlockOSThread()
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	syscall.CloseOnExec(fd)
	// Nothing in a world takes so long.
	most := syscall.NsecToTimeval(int64(time.Minute))
	if err = syscall.SetsockoptTimeval(fd, syscall.SOL_SOCKET, syscall.SO_RCVTIMEO, &most); err == nil {
		err = syscall.Connect(fd, &syscall.SockaddrUnix{Name: path})
	}
	if err != nil {
		syscall.Close(fd)
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &socket{fd}, nil
}

// connect reaches the database of an address, past every bus. dial is dialSocket for those who are in a world, and nil
// for others.
func connect(ctx context.Context, address string, dial pgconn.DialFunc) (*pgx.Conn, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	if dial != nil {
		config.DialFunc = dial
	}
	return pgx.ConnectConfig(ctx, config)
}

// transfer asks for one transfer of bytes.
func (s *socket) transfer(call uintptr, b []byte) (int, error) {
	for {
		n, _, errno := syscall.RawSyscall(call, uintptr(s.fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)))
		switch errno {
		case 0:
			return int(n), nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, os.ErrDeadlineExceeded
		default:
			return 0, errno
		}
	}
}

// Read implements net.Conn.
func (s *socket) Read(b []byte) (int, error) {
	n, err := s.transfer(syscall.SYS_READ, b)
	if n == 0 && len(b) > 0 {
		err = cmp.Or(err, io.EOF)
	}
	return n, err
}

// Write implements net.Conn.
func (s *socket) Write(b []byte) (sent int, err error) {
	for sent < len(b) && err == nil {
		var n int
		n, err = s.transfer(syscall.SYS_WRITE, b[sent:])
		sent += n
	}
	return sent, err
}

// Close implements net.Conn.
func (s *socket) Close() error {
	syscall.RawSyscall(syscall.SYS_CLOSE, uintptr(s.fd), 0, 0)
	return nil
}

// LocalAddr implements net.Conn.
func (s *socket) LocalAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// RemoteAddr implements net.Conn.
func (s *socket) RemoteAddr() net.Addr { return s.LocalAddr() }

// SetDeadline implements net.Conn. There is none but that of dialSocket.
func (s *socket) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (s *socket) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (s *socket) SetWriteDeadline(time.Time) error { return nil }
