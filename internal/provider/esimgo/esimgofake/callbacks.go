package esimgofake

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"time"

	"github.com/roamcard/roamcard/internal/vendorfake"
)

// resendAfter is how long the vendor waits before it sends a callback again that was not taken.
const resendAfter = 100 * time.Millisecond

// setCallbacks says where callbacks go, as in the vendor's portal.
func (s *Server) setCallbacks(c vendorfake.Call) (any, error) {
	var asked struct {
		URL string `json:"url"`
	}
	if vendorfake.Read(c.Body, &asked) != nil || asked.URL == "" {
		return nil, vendorfake.Mistake("url is where callbacks go")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.callbacks = asked.URL
	return map[string]string{"url": asked.URL}, nil
}

// use plays a device that uses data of the eSIM of an order. The answer comes once the callback about it is taken.
func (s *Server) use(c vendorfake.Call) (any, error) {
	var asked struct {
		Bytes int64 `json:"bytes"`
	}
	err := vendorfake.Read(c.Body, &asked)
	s.mu.Lock()
	o, to := s.ordered(c.PathValue("reference")), s.callbacks
	if err != nil || asked.Bytes < 1 || o == nil || !o.Completed {
		s.mu.Unlock()
		return nil, vendorfake.Mistake("bytes are used of the eSIM of an order")
	}
	o.use = Use{Profile: "Installed", Bundle: "Active", Used: o.use.Used + asked.Bytes}
	body := s.callback(o)
	s.mu.Unlock()
	sent := 0
	for taken := to == ""; !taken; {
		if sent++; s.call(c.Context(), to, body) {
			break
		}
		select {
		case <-c.Context().Done():
			return nil, c.Context().Err()
		case <-time.After(resendAfter):
		}
	}
	return map[string]int{"sent": sent}, nil
}

// callback is about the usage of an eSIM; the books are locked.
func (s *Server) callback(o *bought) []byte {
	total := int64(s.find(o.Bundle).DataMB) * 1_000_000
	return vendorfake.JSON(http.StatusOK, map[string]any{
		"iccid": o.sim.iccid, "alertType": "Utilisation", "bundle": map[string]any{
			"id": o.Reference, "reference": o.Reference, "name": o.Bundle, "initialQuantity": max(total, 0),
			"remainingQuantity": max(total-o.use.Used, 0),
		},
	}).Body
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
