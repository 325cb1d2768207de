package otel

import (
	"sync"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// none is in the place of a second attribute where there is one alone.
var none attribute.KeyValue

// sets keeps the attributes of each series, since to sort and hash them takes
// longer than to count. It holds no more than there are series: the labels are
// closed sets.
type sets struct {
	mu   sync.RWMutex
	made map[[4]string]metric.MeasurementOption
}

func (s *sets) of(a, b attribute.KeyValue) metric.MeasurementOption {
	id := [4]string{string(a.Key), a.Value.AsString(), string(b.Key), b.Value.AsString()}
	s.mu.RLock()
	set, ok := s.made[id]
	s.mu.RUnlock()
	if ok {
		return set
	}
	attrs := []attribute.KeyValue{a}
	if b.Valid() {
		attrs = append(attrs, b)
	}
	set = metric.WithAttributeSet(attribute.NewSet(attrs...))
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made = make(map[[4]string]metric.MeasurementOption)
	}
	s.made[id] = set
	return set
}
