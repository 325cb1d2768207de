package mcpsdk

import (
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// An outcome is what the three guarded results have in common.
type outcome struct {
	asks      bool
	state     string
	questions mcp.InputRequestMap
	// with returns a copy with that state. Copying the whole struct keeps the
	// result type, which only the SDK can set.
	with func(state string) mcp.Result
	// failed is whether the result tells a failure, and failure the handler's
	// own error, if that is where it comes from.
	failed  bool
	failure error
	// uncached, if not nil, makes copies of with forbid caching.
	uncached func()
}

// errNoResult is what a handler of raw JSON causes that returns nil and no
// error: the SDK passes it on as a nil pointer of the result's type.
var errNoResult = fmt.Errorf("the handler returned no result")

// readResult reads a result of one of the guarded methods. A result of any other
// type is an error, since a state might leave in it.
func readResult(res mcp.Result) (*outcome, error) {
	switch r := res.(type) {
	case nil:
		return nil, errNoResult
	case *mcp.CallToolResult:
		if r == nil {
			return nil, errNoResult
		}
		c := *r
		return &outcome{
			asks: r.InputRequests != nil || r.NeedsInput(), state: r.RequestState, questions: r.InputRequests,
			failed: r.IsError, failure: r.GetError(),
			with: func(state string) mcp.Result { c := c; c.RequestState = state; return &c },
		}, nil
	case *mcp.GetPromptResult:
		if r == nil {
			return nil, errNoResult
		}
		c := *r
		return &outcome{
			asks: r.InputRequests != nil || r.NeedsInput(), state: r.RequestState, questions: r.InputRequests,
			with: func(state string) mcp.Result { c := c; c.RequestState = state; return &c },
		}, nil
	case *mcp.ReadResourceResult:
		if r == nil {
			return nil, errNoResult
		}
		c := *r
		return &outcome{
			asks: r.InputRequests != nil || r.NeedsInput(), state: r.RequestState, questions: r.InputRequests,
			with:     func(state string) mcp.Result { c := c; c.RequestState = state; return &c },
			uncached: func() { c.Cacheable = mcp.Cacheable{TTLMs: 0, CacheScope: "private"} },
		}, nil
	}
	return nil, fmt.Errorf("a result of type %T cannot be checked for a state: return the SDK's own type", res)
}
