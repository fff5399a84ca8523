package ncclras

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"time"
)

// The errors of Ask that say what is wrong with the other end.
var (
	ErrGarbage = errors.New("the answer is none of NCCL's RAS")
	ErrSilent  = errors.New("no answer in time")
	ErrTooLong = fmt.Errorf("the answer is longer than %d MiB", maxAnswer>>20)
)

// Limits.
const (
	limit = 2500 * time.Millisecond // of everything
	// patience is how many seconds the service waits for the other processes, of which one may be stopped. It answers
	// with what it has then.
	patience = 1
)

// Ask returns the report of one service. It takes 2.5 s at most, less where ctx ends before. It writes only what asks:
// the protocol, the time limit, the format and STATUS, and only after the other end has named itself.
func Ask(ctx context.Context, dial func(context.Context) (net.Conn, error)) (Report, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	conn, err := dial(ctx)
	if err != nil {
		return Report{}, err
	}
	defer conn.Close()
	end, _ := ctx.Deadline()
	_ = conn.SetDeadline(end)
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	text, err := status(conn)
	switch timeout := net.Error(nil); {
	case errors.As(err, &timeout) && timeout.Timeout():
		return Report{}, ErrSilent
	case err != nil:
		return Report{}, err
	}
	return Parse(text)
}

// status speaks the client's side of the protocol (NCCL's src/ras/client.cc), and returns the answer to STATUS.
func status(conn net.Conn) ([]byte, error) {
	in := bufio.NewReader(&io.LimitedReader{R: conn, N: maxAnswer + 1024})
	line, err := exchange(conn, in, "CLIENT PROTOCOL 2\n")
	switch {
	case err != nil:
		return nil, err
	case !strings.HasPrefix(strings.ToUpper(line), "SERVER PROTOCOL "):
		return nil, ErrGarbage
	}
	if line, err = exchange(conn, in, fmt.Sprintf("TIMEOUT %d\n", patience)); err != nil {
		return nil, err
	}
	if !strings.EqualFold(line, "OK\n") {
		return nil, ErrGarbage
	}
	// Before 2.28.7 there is no JSON: "ERROR: Unknown command". The answer is then text.
	if _, err = exchange(conn, in, "SET FORMAT json\n"); err != nil {
		return nil, err
	}
	if _, err = io.WriteString(conn, "VERBOSE STATUS\n"); err != nil {
		return nil, err
	}
	text, err := io.ReadAll(in)
	switch {
	case err == nil && len(text) > maxAnswer:
		return nil, ErrTooLong
	case err == nil && len(bytes.TrimSpace(text)) == 0:
		return nil, ErrGarbage
	}
	return text, err
}

// exchange writes one command and returns the line of its answer.
func exchange(conn net.Conn, in *bufio.Reader, command string) (string, error) {
	if _, err := io.WriteString(conn, command); err != nil {
		return "", err
	}
	line, err := in.ReadSlice('\n') // at most a buffer's size
	switch {
	case errors.Is(err, bufio.ErrBufferFull), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "", ErrGarbage
	}
	return string(line), err
}

// Parse reads the answer to STATUS, in either format.
func Parse(text []byte) (Report, error) {
	if len(text) > maxAnswer {
		return Report{}, ErrTooLong
	}
	text = bytes.TrimSpace(text)
	if bytes.HasPrefix(text, []byte("{")) {
		return parseJSON(text)
	}
	return parseText(text)
}
