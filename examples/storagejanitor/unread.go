package storagejanitor

import (
	"context"
	"errors"
	"fmt"
)

// An Unread tells of the directories and files of the bucket that could not be
// read. What is in them is neither listed nor deleted.
type Unread struct {
	Count int    `json:"count"`
	First string `json:"first" jsonschema:"the first of them, as a question shows a name"`
}

// text is empty, or a sentence that follows others.
func (u *Unread) text() string {
	if u == nil {
		return ""
	}
	return fmt.Sprintf(" %d part(s) of the bucket could not be read and are left out, the first is %s.", u.Count, u.First)
}

// unread takes what could not be read out of an error of [Bucket.List], logs it,
// and returns what else is wrong.
func (j *Janitor) unread(ctx context.Context, err error) (*Unread, error) {
	var u *UnreadableError
	if !errors.As(err, &u) {
		return nil, err
	}
	j.o.Logger.WarnContext(ctx, "part of the bucket cannot be read", "parts", u.Count, "first", u.First, "err", u.Err)
	if errors.Is(err, ErrTooMany) {
		err = ErrTooMany
	} else {
		err = nil
	}
	return &Unread{u.Count, shown(u.First)}, err
}
