package guarddoor

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/foilmcp/foil"
)

// A reply is a result as it is recorded, and the state that leaves with it.
type reply struct {
	result []byte // a JSON object with members and without a state
	token  string // "" unless it asks
}

// text is what the client gets.
func (r *reply) text() json.RawMessage {
	if r.token == "" {
		return r.result
	}
	token, _ := json.Marshal(r.token) // a string always marshals
	return fmt.Appendf(nil, `{"requestState":%s,%s`, token, r.result[1:])
}

func complete(what string) (*reply, error) {
	result, err := json.Marshal(map[string]any{"resultType": "complete", "content": []any{map[string]string{"type": "text", "text": what}}})
	return &reply{result: result}, err
}

// A recordedError is an error that an earlier presentation got.
type recordedError struct{ wire *foil.WireError }

func (e *recordedError) Error() string { return e.wire.Message }

// wireOf is what the client is told of an error.
func wireOf(err error) *foil.WireError {
	if r, ok := errors.AsType[*recordedError](err); ok {
		return r.wire
	}
	return foil.Wire(err)
}

// retell is what an earlier presentation got.
func retell(r *foil.Recorded) (*reply, error) {
	if r.Lost {
		return nil, errors.New("guarddoor: a result was too large to be recorded")
	}
	if r.IsError {
		w := new(foil.WireError)
		if err := json.Unmarshal(r.Result, w); err != nil {
			return nil, fmt.Errorf("guarddoor: recorded error: %w", err)
		}
		return nil, &recordedError{w}
	}
	return &reply{r.Result, r.Token}, nil
}
