package ads

// lane is what a plan says of a type: worked out once, for every stream looks at it for every type whenever anything happens.
type lane struct {
	extents []extent // how much of a change may be sent at each stage
	in      []bool   // which stages are about the type
	breaks  bool     // its removals have a stage of their own
	begins  int      // the first stage that is about the type, or the number of stages if none is
}

// lanes has the lane of each type that a plan lists; all others share one.
type lanes struct {
	listed map[string]*lane
	others *lane
}

func newLanes(p *Plan) lanes {
	l := lanes{listed: map[string]*lane{}, others: p.lane("")}
	for _, s := range p.Stages {
		for _, typeURL := range s.Types {
			l.listed[typeURL] = p.lane(typeURL)
		}
	}
	return l
}

func (l *lanes) of(typeURL string) *lane {
	if listed, ok := l.listed[typeURL]; ok {
		return listed
	}
	return l.others
}

func (p *Plan) lane(typeURL string) *lane {
	l := &lane{breaks: p.breaks(typeURL), begins: len(p.Stages)}
	for i := range p.Stages {
		if p.has(i, typeURL) {
			l.begins = min(l.begins, i)
		}
		l.extents, l.in = append(l.extents, p.allowed(i, typeURL)), append(l.in, p.has(i, typeURL))
	}
	return l
}

// usedBy tells whether a resource of this type may be made use of by one of another: whether it is made no later.
func (l *lane) usedBy(other *lane) bool { return l.begins <= other.begins }
