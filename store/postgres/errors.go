package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATEs that mean something to the store.
const (
	diskFull           = "53100"
	readOnly           = "25006"
	aborted            = "25P02"
	undefinedTable     = "42P01"
	undefinedSchema    = "3F000"
	insufficientRights = "42501"
	lockTimeout        = "55P03"
	queryCanceled      = "57014"
	uniqueViolation    = "23505"
)

// code returns the SQLSTATE of an error of the server, or "".
func code(err error) string {
	var e interface{ SQLState() string }
	if errors.As(err, &e) {
		return e.SQLState()
	}
	return ""
}

// plain says in plain words what the commonest errors mean for an operator, and
// leaves out what an error of the driver holds beside its text: the configuration
// with the password, and the server's details, which can name values.
func plain(err error) error {
	if err == nil {
		return nil
	}
	var server *pgconn.PgError
	if errors.As(err, &server) {
		short := &serverError{code: server.Code, text: server.Message}
		var connecting *pgconn.ConnectError
		if errors.As(err, &connecting) {
			short.text = connecting.Error()
		}
		if hint := hints[server.Code]; hint != "" {
			return fmt.Errorf("%s: %w", hint, short)
		}
		return short
	}
	return &driverError{text: err.Error(), ended: ended(err)}
}

var hints = map[string]string{
	diskFull:           "disk is full",
	readOnly:           "the server takes no writes (a standby, or default_transaction_read_only)",
	aborted:            "the transaction has failed before",
	undefinedTable:     "a table is missing; run foil store migrate",
	undefinedSchema:    "the schema is missing; run foil store migrate",
	insufficientRights: "the role lacks a right that the store needs (see Grants)",
	lockTimeout:        "no lock within the timeout",
	queryCanceled:      "the server was too slow, or told to stop",
}

// serverError is an error of the server without its details.
type serverError struct{ code, text string }

func (e *serverError) Error() string { return fmt.Sprintf("%s (SQLSTATE %s)", e.text, e.code) }

// SQLState returns the server's code of the error.
func (e *serverError) SQLState() string { return e.code }

// driverError is an error of the driver, of which only the text is kept, and
// whether a context had ended.
type driverError struct {
	text  string
	ended error
}

func (e *driverError) Error() string { return e.text }
func (e *driverError) Unwrap() error { return e.ended }

func ended(err error) error {
	for _, target := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(err, target) {
			return target
		}
	}
	return nil
}

// because gives err, if there is one, as the cause of a sentinel.
func because(sentinel, err error) error {
	if err == nil {
		return sentinel
	}
	return fmt.Errorf("%w: %w", sentinel, err)
}
