package storagejanitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/foilmcp/foil"
	"github.com/foilmcp/foil/claimcheck"
	"github.com/foilmcp/foil/ledger"
)

// The names of the tools.
const (
	ListTool  = "list_objects"
	PurgeTool = "purge_objects"
)

// Defaults of [Options].
const (
	// DefaultPlanTTL is as long as a Guard lets a whole flow take.
	DefaultPlanTTL       = foil.DefaultFlowLimit
	DefaultMaxObjects    = 10_000
	DefaultAskTwiceAbove = 100
	// DefaultMaxPlanBytes leaves room in a token of foil.DefaultMaxToken for
	// what else is sealed.
	DefaultMaxPlanBytes = 40 << 10
)

// maxMaxObjects leaves room for the few steps of a purge that delete nothing.
const maxMaxObjects = ledger.MaxSteps - 100

// Options configure a [Janitor]. Bucket must be given, and Claims or
// PlanInState; every other zero field is a safe default.
type Options struct {
	// Bucket is the directory. What the server itself needs must not be in it:
	// a key ring or a store there would be an object like any other.
	Bucket string
	// Claims is where plans are parked. It must be the store that the Guard
	// has as its Options.Claims, and be shared by all replicas.
	Claims claimcheck.Store
	// PlanInState does without: the plan itself is in the state that the
	// client carries. The client cannot change it, but with a codec that
	// does not encrypt it can read the names, sizes and times of all objects
	// that are to be deleted. Nor is there a claim that is spent: that a
	// state works once is up to the Guard alone.
	PlanInState bool
	// MaxPlanBytes is how much of a token a plan in the state may take up; a
	// purge of more objects is refused. DefaultMaxPlanBytes if zero.
	MaxPlanBytes int
	// PlanTTL is how long a plan waits for its confirmation: at least as long
	// as the Guard lets a flow take.
	PlanTTL time.Duration
	// MaxObjects is how many objects one purge may plan, at most 99,900;
	// DefaultMaxObjects if zero.
	MaxObjects int
	// AskTwiceAbove is the number of objects above which a purge asks a second
	// time; DefaultAskTwiceAbove if zero.
	AskTwiceAbove int

	// OnDelete, if not nil, is called after each object that was deleted, by
	// the goroutine of the call. It is for tests and demonstrations.
	OnDelete func(name string)
	// Logger gets a line for each purge and each failure; never a claim. Nil
	// is slog.Default().
	Logger *slog.Logger
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// A Janitor has the two tools. It is safe for concurrent use and keeps nothing
// between calls.
type Janitor struct {
	o      Options
	bucket *Bucket
}

// New opens the bucket. The caller must call Close.
func New(opts *Options) (*Janitor, error) {
	var o Options
	if opts != nil {
		o = *opts
	}
	switch {
	case o.Claims == nil && !o.PlanInState:
		return nil, errors.New("storagejanitor: Options.Claims is nil: give the store of claim checks that the Guard has too, or set PlanInState to let the client carry the plan")
	case o.Claims != nil && o.PlanInState:
		return nil, errors.New("storagejanitor: Options.Claims and PlanInState exclude each other")
	case o.PlanTTL < 0 || o.MaxObjects < 0 || o.AskTwiceAbove < 0 || o.MaxPlanBytes < 0:
		return nil, errors.New("storagejanitor: PlanTTL, MaxObjects, AskTwiceAbove and MaxPlanBytes must not be negative")
	case o.MaxObjects > maxMaxObjects:
		return nil, fmt.Errorf("storagejanitor: MaxObjects %d is more than %d: each deletion is a step, and an operation has at most %d", o.MaxObjects, maxMaxObjects, ledger.MaxSteps)
	}
	o.MaxPlanBytes = cmp.Or(o.MaxPlanBytes, DefaultMaxPlanBytes)
	o.PlanTTL = cmp.Or(o.PlanTTL, DefaultPlanTTL)
	o.MaxObjects = cmp.Or(o.MaxObjects, DefaultMaxObjects)
	o.AskTwiceAbove = cmp.Or(o.AskTwiceAbove, DefaultAskTwiceAbove)
	o.Logger = cmp.Or(o.Logger, slog.Default())
	if o.Now == nil {
		o.Now = time.Now
	}
	bucket, err := OpenBucket(o.Bucket)
	if err != nil {
		return nil, err
	}
	return &Janitor{o, bucket}, nil
}

// Register adds the tools to server. The middleware of package mcpsdk must be
// added to the same server, once, with a Guard whose codec encrypts: the states
// of purge_objects hold claims, unless Options.PlanInState is set.
func (j *Janitor) Register(server *mcp.Server) {
	closed := false
	mcp.AddTool(server, &mcp.Tool{
		Name:  ListTool,
		Title: "List objects",
		Description: "Lists the objects of the bucket whose names begin with a prefix, in the order of their names. " +
			"At most 1000 are listed; a longer list is cut and says so.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true, OpenWorldHint: &closed},
	}, j.list)
	mcp.AddTool(server, &mcp.Tool{
		Name:  PurgeTool,
		Title: "Purge objects",
		Description: "Deletes for good the objects whose names begin with a prefix, after the person has confirmed. The list is fixed when the person is asked: " +
			"objects that appear or change while the person decides are kept.",
		Annotations: &mcp.ToolAnnotations{OpenWorldHint: &closed}, // destructive is the default
	}, j.purge)
}

// Close releases the bucket. No call may be under way.
func (j *Janitor) Close() error { return j.bucket.Close() }

// listLimit is how many objects list_objects gives to a model.
const listLimit = 1000

// ListInput are the arguments of list_objects.
type ListInput struct {
	Prefix string `json:"prefix" jsonschema:"what the names begin with, such as \"logs/\"; the empty string means the whole bucket"`
}

// ListOutput is the result of list_objects.
type ListOutput struct {
	Objects   []ListedObject `json:"objects"`
	Truncated bool           `json:"truncated" jsonschema:"there are more objects than are listed: use a longer prefix"`
	Unread    *Unread        `json:"unread,omitempty" jsonschema:"what could not be read: objects that are in it are not listed"`
}

// A ListedObject is one object of a list.
type ListedObject struct {
	Name     string    `json:"name" jsonschema:"with characters that do not print, and backslashes, written as escapes"`
	Size     int64     `json:"size" jsonschema:"in bytes"`
	Modified time.Time `json:"modified"`
}

func (j *Janitor) list(ctx context.Context, _ *mcp.CallToolRequest, in ListInput) (*mcp.CallToolResult, *ListOutput, error) {
	if err := checkPrefix(in.Prefix); err != nil {
		return nil, nil, err
	}
	objects, err := j.bucket.List(ctx, Filter{Prefix: in.Prefix}, listLimit)
	unread, err := j.unread(ctx, err)
	if err != nil && !errors.Is(err, ErrTooMany) {
		return nil, nil, j.broken(ctx, errBucket, err)
	}
	out := &ListOutput{Objects: make([]ListedObject, len(objects)), Truncated: err != nil, Unread: unread}
	for i, o := range objects {
		out.Objects[i] = ListedObject{visible(o.Name), o.Size, o.Modified.UTC()}
	}
	return nil, out, nil
}

// What a client learns of a system failure. The log has the cause.
var (
	errBucket = errors.New("the bucket cannot be read at the moment; nothing was deleted")
	errClaims = errors.New("the store of confirmations is not available at the moment; nothing was deleted, call again later")
)

// broken logs the cause of a system failure and returns what the client is told.
func (j *Janitor) broken(ctx context.Context, told, cause error) error {
	j.o.Logger.ErrorContext(ctx, "storage janitor failed", "told", told, "err", cause)
	return told
}

// undone is broken for a call that has certainly deleted nothing: under
// foil.Settle it has failed, and nobody needs to find out what it did.
func (j *Janitor) undone(ctx context.Context, told, cause error) error {
	return ledger.NoEffect(j.broken(ctx, told, cause))
}
