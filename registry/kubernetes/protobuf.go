package kubernetes

import (
	"time"

	"github.com/pgmesh/pgmesh/registry/kubernetes/wire"
)

// The objects as they are read from protobuf, with the numbers that Kubernetes' generated.proto give to
// their fields.

// eachField gives each field of a message to a function.
func eachField(message []byte, field func(*wire.Message)) error {
	m := wire.Read(message)
	for m.Next() {
		field(m)
	}
	return m.Err()
}

// field reads one of ObjectMeta.
func (b *bare) field(m *wire.Message) {
	switch m.Field() {
	case 1:
		b.Name = m.Text()
	case 3:
		b.Namespace = m.Text()
	case 6:
		b.ResourceVersion = m.Text()
	}
}

func (o *metadata) field(m *wire.Message) {
	switch m.Field() {
	case 8:
		o.CreationTimestamp = timeOf(m)
	case 11:
		m.Entry(&o.Labels)
	case 12:
		m.Entry(&o.Annotations)
	default:
		o.bare.field(m)
	}
}

// timeOf reads the field as a Time, which is none if nothing is in it.
func timeOf(m *wire.Message) time.Time {
	var seconds int64
	m.Within(func(m *wire.Message) {
		if m.Field() == 1 {
			seconds = m.Number()
		}
	})
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// ReadProtobuf implements follow.Compact, and so do the others.
func (o *serviceObject) ReadProtobuf(message []byte) error {
	return eachField(message, func(m *wire.Message) {
		switch m.Field() {
		case 1:
			m.Within(o.Metadata.field)
		case 2:
			m.Within(o.specField)
		case 3:
			m.Within(o.statusField)
		}
	})
}

func (o *serviceObject) specField(m *wire.Message) {
	s := &o.Spec
	switch m.Field() {
	case 1:
		var p servicePort
		m.Within(p.field)
		s.Ports = append(s.Ports, p)
	case 2:
		m.Entry(&s.Selector)
	case 3:
		s.ClusterIP = m.Text()
	case 4:
		s.Type = m.Text()
	case 5:
		s.ExternalIPs = append(s.ExternalIPs, m.Text())
	case 10:
		s.ExternalName = m.Text()
	case 18:
		s.ClusterIPs = append(s.ClusterIPs, m.Text())
	case 19:
		s.IPFamilies = append(s.IPFamilies, m.Text())
	case 23:
		s.TrafficDistribution = m.Text()
	}
}

func (p *servicePort) field(m *wire.Message) {
	switch m.Field() {
	case 1:
		p.Name = m.Text()
	case 2:
		p.Protocol = m.Text()
	case 3:
		p.Port = m.Port()
	case 4:
		m.Within(p.TargetPort.field)
	case 5:
		p.NodePort = m.Port()
	case 6:
		p.AppProtocol = m.Text()
	}
}

// field reads one of IntOrString, of which a name has no number.
func (p *portNumber) field(m *wire.Message) {
	if m.Field() == 2 {
		*p = portNumber(m.Port())
	}
}

func (o *serviceObject) statusField(m *wire.Message) {
	if m.Field() != 1 {
		return
	}
	m.Within(func(m *wire.Message) {
		if m.Field() == 1 {
			var i ingress
			m.Within(i.field)
			o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, i)
		}
	})
}

func (i *ingress) field(m *wire.Message) {
	switch m.Field() {
	case 1:
		i.IP = m.Text()
	case 2:
		i.Hostname = m.Text()
	}
}

// ReadProtobuf implements follow.Compact.
func (o *sliceObject) ReadProtobuf(message []byte) error {
	return eachField(message, func(m *wire.Message) {
		switch m.Field() {
		case 1:
			m.Within(o.metadataField)
		case 2:
			var e endpointObject
			m.Within(e.field)
			o.Endpoints = append(o.Endpoints, e)
		case 3:
			var p slicePortObject
			m.Within(p.field)
			o.Ports = append(o.Ports, p)
		case 4:
			o.AddressType = m.Text()
		}
	})
}

func (o *sliceObject) metadataField(m *wire.Message) {
	if m.Field() != 11 {
		o.Metadata.field(m)
		return
	}
	m.Named(serviceNameLabel, &o.Metadata.Labels.Service)
}

func (p *slicePortObject) field(m *wire.Message) {
	switch m.Field() {
	case 1:
		p.Name = m.Text()
	case 2:
		p.Protocol = m.Text()
	case 3:
		p.Port = m.Port()
	}
}

func (o *endpointObject) field(m *wire.Message) {
	switch m.Field() {
	case 1:
		o.Addresses = append(o.Addresses, m.Text())
	case 2:
		m.Within(o.conditionsField)
	case 3:
		o.Hostname = m.Text()
	case 4:
		m.Within(o.targetField)
	case 6:
		o.NodeName = m.Text()
	case 7:
		o.Zone = m.Text()
	}
}

func (o *endpointObject) conditionsField(m *wire.Message) {
	switch m.Field() {
	case 1:
		o.Conditions.Ready = new(m.Bool())
	case 2:
		o.Conditions.Serving = new(m.Bool())
	case 3:
		o.Conditions.Terminating = m.Bool()
	}
}

func (o *endpointObject) targetField(m *wire.Message) {
	switch m.Field() {
	case 1:
		o.TargetRef.Kind = m.Text()
	case 3:
		o.TargetRef.Name = m.Text()
	}
}

// ReadProtobuf implements follow.Compact.
func (o *podObject) ReadProtobuf(message []byte) error {
	return eachField(message, func(m *wire.Message) {
		switch m.Field() {
		case 1:
			m.Within(o.metadataField)
		case 2:
			m.Within(o.specField)
		case 3:
			m.Within(o.statusField)
		}
	})
}

func (o *podObject) metadataField(m *wire.Message) {
	switch m.Field() {
	case 9:
		o.Metadata.DeletionTimestamp = timeOf(m).Format(time.RFC3339)
	case 11:
		m.Entry(&o.Metadata.Labels)
	case 12:
		m.Named(sidecarAnnotation, &o.Metadata.Annotations.Sidecar)
	default:
		o.Metadata.field(m)
	}
}

func (o *podObject) specField(m *wire.Message) {
	switch m.Field() {
	case 8:
		o.Spec.ServiceAccountName = m.Text()
	case 10:
		o.Spec.NodeName = m.Text()
	}
}

func (o *podObject) statusField(m *wire.Message) {
	switch m.Field() {
	case 1:
		o.Status.Phase = m.Text()
	case 2:
		var c podCondition
		m.Within(c.field)
		o.Status.Conditions = append(o.Status.Conditions, c)
	case 6:
		o.Status.PodIP = m.Text()
	}
}

func (c *podCondition) field(m *wire.Message) {
	switch m.Field() {
	case 1:
		c.Type = m.Text()
	case 2:
		c.Status = m.Text()
	}
}

// ReadProtobuf implements follow.Compact.
func (o *nodeObject) ReadProtobuf(message []byte) error {
	return eachField(message, func(m *wire.Message) {
		switch m.Field() {
		case 1:
			m.Within(func(m *wire.Message) {
				if m.Field() == 11 {
					m.Entry(&o.Metadata.Labels)
					return
				}
				o.Metadata.field(m)
			})
		case 3:
			m.Within(o.statusField)
		}
	})
}

func (o *nodeObject) statusField(m *wire.Message) {
	if m.Field() == 5 {
		var a nodeAddress
		m.Within(a.field)
		o.Status.Addresses = append(o.Status.Addresses, a)
	}
}

func (a *nodeAddress) field(m *wire.Message) {
	switch m.Field() {
	case 1:
		a.Type = m.Text()
	case 2:
		a.Address = m.Text()
	}
}
