package ads

import "slices"

// typePlan is what a plan says of one type. It is computed once, because every stream consults it
// for every type at every event.
type typePlan struct {
	extents []extent // by stage: how much of a change may be sent
	in      []bool   // by stage: whether it is about the type
	atOnce  []bool   // by stage: whether a client applies the type at once
	breaks  bool     // its removals have a stage of their own
	begins  int      // the first stage that is about the type, or the number of stages if none is
}

// typePlans has a typePlan for each type that a plan lists; all others share one.
type typePlans struct {
	listed map[string]*typePlan
	others *typePlan
}

func newTypePlans(p *Plan) typePlans {
	l := typePlans{listed: map[string]*typePlan{}, others: p.typePlan("")}
	for _, s := range p.Stages {
		for _, typeURL := range s.Types {
			l.listed[typeURL] = p.typePlan(typeURL)
		}
	}
	return l
}

func (l *typePlans) of(typeURL string) *typePlan {
	if listed, ok := l.listed[typeURL]; ok {
		return listed
	}
	return l.others
}

func (p *Plan) typePlan(typeURL string) *typePlan {
	l := &typePlan{breaks: p.breaks(typeURL), begins: len(p.Stages)}
	for i := range p.Stages {
		if p.has(i, typeURL) {
			l.begins = min(l.begins, i)
		}
		l.extents, l.in = append(l.extents, p.allowed(i, typeURL)), append(l.in, p.has(i, typeURL))
		l.atOnce = append(l.atOnce, slices.Contains(p.Stages[i].AtOnce, typeURL))
	}
	return l
}

// usedBy reports whether resources of this type may be used by those of another: whether the plan
// makes them no later.
func (l *typePlan) usedBy(other *typePlan) bool { return l.begins <= other.begins }
