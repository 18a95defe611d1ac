export * from "./gen/roamcard/v1/auth_pb.js";
export * from "./gen/roamcard/v1/card_pb.js";
export * from "./gen/roamcard/v1/operator_pb.js";
export * from "./gen/roamcard/v1/order_pb.js";
export * from "./gen/roamcard/v1/problem_pb.js";
export * from "./gen/roamcard/v1/service_pb.js";
