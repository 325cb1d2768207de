package ringtable

// Each calls fn for every key of the ring, in the order of the document, with its id
// in the ring.
func (t *Table[M]) Each(fn func(id string, ready M)) {
	for _, key := range t.ring.Keys() {
		if e := t.byKey[key]; e != nil {
			fn(key.ID(), e.ready)
		}
	}
}
