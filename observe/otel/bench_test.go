package otel_test

import (
	"testing"
	"time"

	"github.com/foilmcp/foil"
)

func BenchmarkOpened(b *testing.B) {
	_, o := observer(b)
	e := foil.Event{Op: "open", Method: foil.MethodToolsCall, KeyID: "9f1c", Bytes: 600, Took: time.Millisecond}
	b.ReportAllocs()
	for b.Loop() {
		o.Opened(ctx, e)
	}
}
