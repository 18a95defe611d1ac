package esimgofake

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"time"
)

// resendAfter is how long the vendor waits before it sends a callback again that was not taken.
const resendAfter = 100 * time.Millisecond

// setCallbacks says where callbacks go, as in the vendor's portal.
func (s *Server) setCallbacks(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		URL string `json:"url"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&asked); err != nil || asked.URL == "" {
		write(w, no(http.StatusBadRequest, "url is where callbacks go"))
		return
	}
	s.mu.Lock()
	s.callbacks = asked.URL
	s.mu.Unlock()
	write(w, ok(map[string]string{"url": asked.URL}))
}

// use plays a device that uses data of the eSIM of an order. The answer comes once the callback about it is taken.
func (s *Server) use(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Bytes int64 `json:"bytes"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&asked)
	s.mu.Lock()
	o, to := s.ordered(r.PathValue("reference")), s.callbacks
	if err != nil || asked.Bytes < 1 || o == nil || !o.Completed {
		s.mu.Unlock()
		write(w, no(http.StatusBadRequest, "bytes are used of the eSIM of an order"))
		return
	}
	o.use = Use{Profile: "Installed", Bundle: "Active", Used: o.use.Used + asked.Bytes}
	body := s.callback(o)
	s.mu.Unlock()
	sent := 0
	for taken := to == ""; !taken; {
		if sent++; s.call(r.Context(), to, body) {
			break
		}
		select {
		case <-r.Context().Done():
			return
		case <-time.After(resendAfter):
		}
	}
	write(w, ok(map[string]int{"sent": sent}))
}

// callback is about the usage of an eSIM; the books are locked.
func (s *Server) callback(o *bought) []byte {
	total := int64(s.find(o.Bundle).DataMB) * 1_000_000
	return encode(map[string]any{
		"iccid": o.sim.iccid, "alertType": "Utilisation", "bundle": map[string]any{
			"id": o.Reference, "reference": o.Reference, "name": o.Bundle, "initialQuantity": max(total, 0),
			"remainingQuantity": max(total-o.use.Used, 0),
		},
	})
}

// call sends a callback, signed as those of version 3 are, and reports whether it is taken.
func (s *Server) call(ctx context.Context, to string, body []byte) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return false
	}
	mac := hmac.New(sha256.New, []byte(s.cfg.APIKey.Reveal()))
	_, _ = mac.Write(body) // never fails
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("X-Signature-SHA256", base64.StdEncoding.EncodeToString(mac.Sum(nil)))
	res, err := s.sender.Do(req)
	if err != nil {
		return false
	}
	_ = res.Body.Close()
	return res.StatusCode/100 == 2
}
