//go:build unix

package crash_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// What an answer is, for a client.
const (
	isResult      = "a result"
	isInProgress  = "in progress"
	isUnknown     = "unknown"
	isRefusal     = "a refusal"
	isUnavailable = "unavailable"
	isFailure     = "the handler's error"
)

// An answer is what came back for one call, as it came.
type answer struct {
	kind  string
	body  string
	flow  string // of an unknown operation
	state string // of a result that asks
	text  string
}

func (a answer) final() bool { return a.kind == isResult || a.kind == isUnknown }

func (a answer) String() string { return a.kind + " " + a.body }

// call sends tools/call. The state is "" for the first call; decline is the wrong
// answer for one that had been accepted.
func call(ctx context.Context, url, tool, trial, state, action string) (answer, error) {
	params := fmt.Sprintf(`{"name":%q,"arguments":{"trial":%q}`, tool, trial)
	if state != "" {
		params += fmt.Sprintf(`,"inputResponses":{"confirm":{"action":%q,"content":{"ok":true}}},"requestState":%q`, action, state)
	}
	body := `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":` + params +
		`,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}}}`
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	for k, v := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
		"Mcp-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool, "Authorization": "Bearer ann",
	} {
		req.Header.Set(k, v)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	return read(string(b))
}

func read(body string) (answer, error) {
	var m struct {
		Result *struct {
			State   string `json:"requestState"`
			IsError bool
			Content []struct{ Text string }
		}
		Error *struct {
			Code int
			Data struct{ Reason, Flow string }
		}
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		return answer{}, fmt.Errorf("%w: %s", err, body)
	}
	a := answer{body: body}
	switch {
	case m.Result != nil && !m.Result.IsError:
		a.kind, a.state = isResult, m.Result.State
		if len(m.Result.Content) == 1 {
			a.text = m.Result.Content[0].Text
		}
	case m.Error != nil:
		a.flow = m.Error.Data.Flow
		kinds := map[string]string{
			"-32000 operation_in_progress":     isInProgress,
			"-32000 operation_unknown":         isUnknown,
			"-32602 invalid_request_state":     isRefusal,
			"-32603 request_state_unavailable": isUnavailable,
		}
		a.kind = kinds[fmt.Sprint(m.Error.Code, " ", m.Error.Data.Reason)]
		if m.Error.Data.Reason == "" {
			a.kind = isFailure
		}
	}
	if a.kind == "" {
		return a, errors.New("an answer that nobody promised: " + body)
	}
	return a, nil
}

// outcome presents the state until the answer is one that stays.
func outcome(ctx context.Context, url, tool, trial, state string) (answer, error) {
	for {
		a, err := call(ctx, url, tool, trial, state, "accept")
		switch {
		case err != nil:
			return a, err
		case a.final():
			return a, nil
		case a.kind != isInProgress && a.kind != isUnavailable:
			return a, fmt.Errorf("retry got %v", a)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return a, fmt.Errorf("still %v: %w", a, ctx.Err())
		}
	}
}

func flowID(flow string) ([]byte, error) { return base64.RawURLEncoding.DecodeString(flow) }
