// The service's messages and services as they are generated, for those who make calls of their own over Connect.
export * from "./gen/roamcard/v1/activity_pb.js";
export * from "./gen/roamcard/v1/auth_pb.js";
export * from "./gen/roamcard/v1/card_pb.js";
export * from "./gen/roamcard/v1/esim_pb.js";
export * from "./gen/roamcard/v1/operator_pb.js";
export * from "./gen/roamcard/v1/order_pb.js";
export * from "./gen/roamcard/v1/problem_pb.js";
export * from "./gen/roamcard/v1/service_pb.js";
