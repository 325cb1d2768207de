package openbao

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
)

var (
	// ErrUnavailable is matched by an error that says nothing about what was asked
	// for: the server did not answer in time, is sealed, limits its callers or
	// failed. The same call may succeed later.
	ErrUnavailable = errors.New("openbao: unavailable")

	// ErrDenied is matched when the server refuses the client's token: the role
	// lacks a policy, or the credentials are not good. It is no answer of a client
	// of ours, and never matches foil.ErrInvalid.
	ErrDenied = errors.New("openbao: permission denied")

	// ErrClosed is returned by every call on a client that was closed.
	ErrClosed = errors.New("openbao: client is closed")
)

// An Error is a failed call. Its text names the operation and the status, and what to
// do; never a path below the mount, a token, a body, or the server's own words where
// the request held a secret that those could repeat.
type Error struct {
	// Op is what was tried, such as "read ring".
	Op string
	// Status is the HTTP status of the answer; 0 if there was none.
	Status int

	hint     string
	messages []string // the server's words: to be looked at, not to be told
	cause    error    // a context's error, or one of this package's
	unsure   bool     // the server may have done what it was asked
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("openbao: " + e.Op)
	if e.Status != 0 {
		fmt.Fprintf(&b, ": status %d", e.Status)
	}
	if e.hint != "" {
		b.WriteString(": " + e.hint)
	}
	if e.cause != nil && e.cause != ErrUnavailable && e.cause != ErrDenied {
		b.WriteString(": " + e.cause.Error())
	}
	return b.String()
}

// Is reports whether the failure is one of ErrUnavailable and ErrDenied.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnavailable:
		return e.Status == 0 && e.cause != ErrDenied && e.cause != context.Canceled || e.Status == http.StatusTooManyRequests || e.Status == http.StatusPreconditionFailed || e.Status >= 500
	case ErrDenied:
		return e.Status == http.StatusForbidden || e.cause == ErrDenied
	}
	return false
}

// Unwrap returns the error of the caller's context, if that is why the call ended.
func (e *Error) Unwrap() error { return e.cause }

// Format keeps what is inside out of every verb.
func (e *Error) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(e.Error())) }

// said reports whether the server's words contain text.
func (e *Error) said(text string) bool {
	for _, m := range e.messages {
		if strings.Contains(m, text) {
			return true
		}
	}
	return false
}

// as returns err as an *Error, or nil.
func as(err error) *Error {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return nil
	}
	return e
}

// status returns the status of the answer that err stands for; 0 if there was none.
func status(err error) int {
	if e := as(err); e != nil {
		return e.Status
	}
	return 0
}

// hintFor says what a status means to an operator. The server's own words are used to
// choose the hint, and are part of it only if tell is set.
func hintFor(status int, messages []string, tell bool) string {
	has := func(text string) bool { return (&Error{messages: messages}).said(text) }
	var hint string
	switch {
	case status == http.StatusServiceUnavailable && has("sealed"):
		return "the server is sealed: unseal it"
	case status == http.StatusServiceUnavailable && has("not initialized"):
		return "the server is not initialized: run bao operator init"
	case status == http.StatusForbidden:
		hint = "permission denied: give the role its policy (foil openbao policy NAME prints it), or look whether its token or secret ID was revoked"
	case status == http.StatusTooManyRequests:
		hint = "the server limits the rate of calls: see its quotas"
	case status == http.StatusRequestEntityTooLarge || has("exceeds maximum"):
		hint = "the request is larger than the server takes"
	case status == http.StatusNotFound:
		hint = "nothing is there: look at the mount and the path"
	case status >= 500:
		hint = "the server failed: its log says why"
	}
	if tell && len(messages) > 0 {
		words := clean(strings.Join(messages, "; "))
		if hint == "" {
			return words
		}
		return hint + " (" + words + ")"
	}
	return hint
}

// clean makes the server's words fit for one line of a log.
func clean(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == ' ' }), " ")
	const most = 300
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// messagesOf returns the server's words in the body of an answer that is an error.
func messagesOf(body []byte) []string {
	var doc struct {
		Errors []string `json:"errors"`
		Data   struct {
			Error string `json:"error"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return nil
	}
	if doc.Data.Error != "" {
		doc.Errors = append(doc.Errors, doc.Data.Error)
	}
	return doc.Errors
}

// transportError describes a call without an answer. The library's own error is not
// kept whole: it quotes the URL.
func transportError(ctx context.Context, op string, err error) *Error {
	e := &Error{Op: op, cause: ErrUnavailable, unsure: true}
	if cause := context.Cause(ctx); cause != nil {
		switch {
		case errors.Is(cause, errDeadline):
			e.hint = "no answer in time"
		default:
			e.cause = ctx.Err()
		}
		return e
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	e.hint = "no answer: " + clean(err.Error())
	return e
}

// errDeadline is the cause of a context that ended by the client's own deadline.
var errDeadline = errors.New("openbao: deadline of the call")
