package mcpsdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/foilmcp/foil"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Under Settle a result is recorded as its bytes, and goes out as those bytes the
// first time and every other time: reading them into the SDK's types and writing
// them again would lose digits of large numbers, and turn null into []. What
// changes is the SDK's own _meta, which it adds after all middleware, and the
// state of a result that asks, which is sealed anew.

// exact is what the three results that go out as bytes have in common.
type exact struct {
	raw   []byte // a JSON object without requestState
	token string
}

// The SDK looks at a result through methods that only its own types have, so each
// of these embeds one.
type (
	exactTool struct {
		*mcp.CallToolResult
		exact
	}
	exactPrompt struct {
		*mcp.GetPromptResult
		exact
	}
	exactResource struct {
		*mcp.ReadResourceResult
		exact
	}
)

func (r *exactTool) MarshalJSON() ([]byte, error)     { return r.marshal(r.CallToolResult.Meta) }
func (r *exactPrompt) MarshalJSON() ([]byte, error)   { return r.marshal(r.GetPromptResult.Meta) }
func (r *exactResource) MarshalJSON() ([]byte, error) { return r.marshal(r.ReadResourceResult.Meta) }

// asBytes returns a result that goes out as raw, with token as its state.
func asBytes(method string, raw []byte, token string) (mcp.Result, error) {
	meta, _, err := metaOf(raw)
	if err != nil {
		return nil, err
	}
	var m mcp.Meta
	if meta != nil {
		if err := json.Unmarshal(meta, &m); err != nil {
			return nil, fmt.Errorf("_meta of a recorded result: %w", err)
		}
	}
	e := exact{raw, token}
	switch method {
	case foil.MethodToolsCall:
		return &exactTool{&mcp.CallToolResult{Meta: m, RequestState: token}, e}, nil
	case foil.MethodPromptsGet:
		return &exactPrompt{&mcp.GetPromptResult{Meta: m, RequestState: token}, e}, nil
	case foil.MethodResourcesRead:
		return &exactResource{&mcp.ReadResourceResult{Meta: m, RequestState: token}, e}, nil
	}
	return nil, fmt.Errorf("no result of %s is recorded", method)
}

// marshal returns the bytes with the state and with what the SDK has added to
// their _meta.
func (e *exact) marshal(meta mcp.Meta) ([]byte, error) {
	had, at, err := metaOf(e.raw)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	b.WriteByte('{')
	sep := ""
	if len(meta) > 0 && had == nil {
		m, err := json.Marshal(meta)
		if err != nil {
			return nil, err
		}
		b.WriteString(`"_meta":`)
		b.Write(m)
		sep = ","
	}
	if e.token != "" {
		t, err := json.Marshal(e.token)
		if err != nil {
			return nil, err
		}
		b.WriteString(sep + `"requestState":`)
		b.Write(t)
		sep = ","
	}
	open := bytes.IndexByte(e.raw, '{') + 1
	if rest := bytes.TrimSpace(e.raw[open:]); len(rest) > 0 && rest[0] != '}' {
		b.WriteString(sep)
	}
	if had == nil {
		b.Write(e.raw[open:])
		return b.Bytes(), nil
	}
	b.Write(e.raw[open:at])
	if err := appendMeta(&b, had, meta); err != nil {
		return nil, err
	}
	b.Write(e.raw[at+len(had):])
	return b.Bytes(), nil
}

// appendMeta writes the _meta that was recorded, and behind it what the SDK has
// added.
func appendMeta(b *bytes.Buffer, had []byte, meta mcp.Meta) error {
	var old map[string]json.RawMessage
	if err := json.Unmarshal(had, &old); err != nil {
		return err
	}
	added := make(map[string]any)
	for key, value := range meta {
		if _, ok := old[key]; !ok {
			added[key] = value
		}
	}
	if len(added) == 0 || old == nil {
		b.Write(had)
		return nil
	}
	more, err := json.Marshal(added)
	if err != nil {
		return err
	}
	b.Write(had[:bytes.LastIndexByte(had, '}')])
	if len(old) > 0 {
		b.WriteByte(',')
	}
	b.Write(more[1:])
	return nil
}

// metaOf returns the member _meta of an object and where its value begins; nil
// if there is none.
func metaOf(raw []byte) (meta []byte, at int, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, 0, errors.New("a recorded result is not an object")
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, 0, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, 0, err
		}
		if key == "_meta" && len(value) > 0 && value[0] == '{' {
			return value, int(d.InputOffset()) - len(value), nil
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, 0, err
	}
	return nil, 0, nil
}

// retell returns what an earlier presentation got.
func retell(method string, r *foil.Recorded) (mcp.Result, error) {
	switch {
	case r.Lost && method == foil.MethodToolsCall:
		return &mcp.CallToolResult{
			Content: []mcp.Content{&mcp.TextContent{Text: "The operation was carried out before. Its result was too large to be kept and cannot be told again."}},
			IsError: r.Failed,
		}, nil
	case r.Lost:
		return nil, internal("the " + noun(method) + " was carried out before; its result was too large to be kept")
	case r.IsError:
		var e jsonrpc.Error
		if err := json.Unmarshal(r.Result, &e); err != nil {
			return nil, wire(fmt.Errorf("recorded error: %w", err))
		}
		return nil, &e
	}
	res, err := asBytes(method, r.Result, r.Token)
	if err != nil {
		return nil, wire(err)
	}
	return res, nil
}

// onTheWire is err as the SDK would send it.
func onTheWire(err error) *jsonrpc.Error {
	if e, ok := err.(*jsonrpc.Error); ok {
		return e
	}
	w := &jsonrpc.Error{Message: err.Error()}
	if e, ok := errors.AsType[*jsonrpc.Error](err); ok {
		w.Code = e.Code
	}
	return w
}
