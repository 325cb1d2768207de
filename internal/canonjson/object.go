package canonjson

import "math"

// A place is an offset in flat in each form.
type place uint64

func (p place) in(f form) uint32 { return uint32(p >> (32 * f)) }

// A member of an object that is being read.
type member struct {
	start, end place // "key":value in flat
	list       list  // reordered objects in the value
}

// A reordered object's text between its braces is taken from n entries from
// kept[first] on instead of from flat[open:close].
type reordered struct {
	open, close place
	first, n    uint32
	next        int32 // in its list
}

// keptMembers are one or more members that follow each other in flat, with the
// reordered objects in them.
type keptMembers struct {
	start, end place
	head       int32
}

// rawMember is a member of the outermost object, the value by place in text.
type rawMember struct {
	key        keyRef
	start, end uint32
}

// list is a linked list of entries of objs in document order.
type list struct{ head, tail int32 }

var emptyList = list{-1, -1}

func (p *parser) concat(a, b list) list {
	if a.head < 0 {
		return b
	}
	if b.head < 0 {
		return a
	}
	p.objs[a.tail].next = b.head
	return list{a.head, b.tail}
}

// openObject is what is known of an object that is being read.
type openObject struct {
	base, keyBase int  // of its entries on the stacks
	before        list // of the value around the object
	open          place
	sorted        bool // keys so far strictly ascending
	folds         bool // some key may equal another but for case
}

// object reads the object at pos, which lies inside depth-1 containers.
func (p *parser) object(depth int) bool {
	if depth > p.lim.MaxDepth {
		return p.fail(ErrLimit, "depth", p.pos)
	}
	p.pos++
	p.space()
	if p.pos < len(p.text) && p.text[p.pos] == '}' {
		p.pos++
		return true
	}
	o := openObject{
		base:    len(p.members),
		keyBase: len(p.keys),
		before:  p.list,
		open:    p.here(),
		sorted:  true,
	}
	raw := p.want&wantMembers != 0 && depth == 1
	for {
		if p.pos >= len(p.text) || p.text[p.pos] != '"' {
			return p.unexpected()
		}
		start := p.here()
		key, ok := p.string(true)
		if !ok {
			return false
		}
		p.space()
		if p.pos >= len(p.text) || p.text[p.pos] != ':' {
			return p.unexpected()
		}
		p.pos++
		p.space()
		at := len(p.members)
		if p.want&wantText != 0 {
			p.addMember(&o, key, start)
		}
		p.list = emptyList
		rawStart := p.pos
		if !p.value(depth) {
			return false
		}
		switch {
		case p.want&wantText != 0:
			p.members[at].end, p.members[at].list = p.here(), p.list
		case raw:
			p.top = append(p.top, rawMember{key, uint32(rawStart), uint32(p.pos)})
		default:
			p.keys = p.keys[:o.keyBase]
		}
		p.space()
		if p.pos >= len(p.text) {
			return p.unexpected()
		}
		switch p.text[p.pos] {
		case ',':
			p.pos++
			p.space()
		case '}':
			if p.want&wantText != 0 {
				p.closeObject(&o)
			}
			p.pos++
			return true
		default:
			return p.unexpected()
		}
	}
}

// addMember puts a member on the stacks; its end and its list come with its value.
func (p *parser) addMember(o *openObject, ref keyRef, start place) {
	n := len(p.members)
	extend(&p.members).start = start
	k := extend(&p.order)
	k.prefix, k.ref, k.index = p.prefix(ref), ref, uint32(n-o.base)
	if o.sorted && n > o.base {
		o.sorted = p.less(&p.order[n-1], k)
	}
	if !o.folds && p.want&wantAmbiguous != 0 {
		o.folds = hasFold(p.key(ref))
	}
}

// closeObject puts the members in order and takes them off the stacks.
func (p *parser) closeObject(o *openObject) {
	members, order := p.members[o.base:], p.order[o.base:]
	inside := emptyList
	if o.sorted {
		for i := range members {
			inside = p.concat(inside, members[i].list)
		}
	} else {
		p.sortKeys(order)
		first := len(p.kept)
		grow(&p.kept, len(order))
		var run list // reordered objects in the last kept entry
		after := uint32(math.MaxUint32)
		for i := range order {
			if i+1 < len(order) && p.equal(&order[i], &order[i+1]) {
				p.ambiguous = true
				continue // of members with one key the last wins
			}
			index := order[i].index
			m := &members[index]
			if index == after { // next to each other already: move them as one
				run = p.concat(run, m.list)
			} else {
				run = m.list
				extend(&p.kept).start = m.start
			}
			k := &p.kept[len(p.kept)-1]
			k.end, k.head = m.end, run.head
			after = index + 1
		}
		at := int32(len(p.objs))
		inside = list{at, at}
		r := extend(&p.objs)
		r.open, r.close, r.next = o.open, p.here(), -1
		r.first, r.n = uint32(first), uint32(len(p.kept)-first)
	}
	if o.folds && !p.ambiguous {
		p.ambiguous = p.caseTwins(order)
	}
	p.list = p.concat(o.before, inside)
	p.members, p.order = p.members[:o.base], p.order[:o.base]
	p.keys = p.keys[:o.keyBase]
}

// canonical returns the whole text in one form. It is good until the next call.
func (p *parser) canonical(f form) []byte {
	if p.list.head < 0 {
		return p.flat[f]
	}
	p.out = p.out[:0]
	grow(&p.out, len(p.flat[f]))
	out := p.span(p.out, f, 0, uint32(len(p.flat[f])), p.list.head)
	if cap(out) > cap(p.out) {
		p.out = out
	}
	return out
}

// span appends flat[start:end], in which the objects of the list at head are
// to be put in order.
func (p *parser) span(dst []byte, f form, start, end uint32, head int32) []byte {
	flat := p.flat[f]
	for i := head; i >= 0; i = p.objs[i].next {
		o := &p.objs[i]
		dst = append(dst, flat[start:o.open.in(f)]...)
		kept := p.kept[o.first : o.first+o.n]
		for j := range kept {
			m := &kept[j]
			if j > 0 {
				dst = append(dst, ',')
			}
			if m.head < 0 {
				dst = append(dst, flat[m.start.in(f):m.end.in(f)]...)
			} else {
				dst = p.span(dst, f, m.start.in(f), m.end.in(f), m.head)
			}
		}
		start = o.close.in(f)
	}
	return append(dst, flat[start:end]...)
}
