// Package munge hides a text from all users but one: munged, a daemon that Slurm's nodes share a key
// with, encrypts it and decrypts it for that user only, on every node of the cluster (munge(7)).
package munge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// limit bounds a conversation with the daemon of this node. It takes milliseconds.
const limit = 2 * time.Second

// ErrForeign: the text is another user's.
var ErrForeign = errors.New("munge shows it to another user alone")

// unauthorized is munge.h's EMUNGE_CRED_UNAUTHORIZED, which unmunge ends with.
const unauthorized = 18

// Hide returns a credential that holds a text for this user alone. Anybody may read the credential.
func Hide(ctx context.Context, text string) (credential string, err error) {
	uid := strconv.Itoa(os.Geteuid())
	out, err := run(ctx, text, "munge", "--restrict-uid", uid)
	return strings.TrimSpace(string(out)), err
}

// Reveal returns the text of a credential that this user made, on this node or another one.
func Reveal(ctx context.Context, credential string) (text string, err error) {
	out, err := run(ctx, credential, "unmunge")
	if e, ok := errors.AsType[*exec.ExitError](err); ok && e.ExitCode() == unauthorized {
		return "", ErrForeign
	}
	head, body, ok := bytes.Cut(out, []byte("\n\n"))
	if !ok {
		return "", fmt.Errorf("unmunge: %w", cmpErr(err, errors.New("no text in its answer")))
	}
	status, user := field(string(head), "STATUS"), field(string(head), "UID")
	if user != os.Geteuid() {
		return "", fmt.Errorf("munge: user %d made it, and not this one, %d", user, os.Geteuid())
	}
	switch status {
	// munge.h: success; expired, rewound and replayed, of which each holds the text all the same. A job
	// lives longer than a credential, clocks differ, and each node reads it.
	case 0, 15, 16, 17:
		return string(body), nil
	}
	return "", fmt.Errorf("unmunge: status %d", status)
}

// Works returns nil where the daemon of this node hides a text from others and shows it to this user.
func Works(ctx context.Context) error {
	const text = "launch"
	c, err := Hide(ctx, text)
	if err != nil {
		return err
	}
	got, err := Reveal(ctx, c)
	if err == nil && got != text {
		err = errors.New("munge returns another text than it got")
	}
	return err
}

// run runs one of munge's programs, which fail at once where the daemon does not run.
func run(ctx context.Context, input, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.WaitDelay = limit
	cmd.Stdin = strings.NewReader(input)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", name, err, bytes.TrimSpace(said.Bytes()))
	}
	return out, err
}

// field returns the number in parentheses at the end of a line of unmunge's answer; -1: none.
func field(head, name string) int {
	for line := range strings.Lines(head) {
		if key, value, ok := strings.Cut(line, ":"); ok && key == name {
			value = strings.TrimSuffix(strings.TrimSpace(value), ")")
			if n, err := strconv.Atoi(value[strings.LastIndexByte(value, '(')+1:]); err == nil {
				return n
			}
		}
	}
	return -1
}

func cmpErr(err, or error) error {
	if err != nil {
		return err
	}
	return or
}
