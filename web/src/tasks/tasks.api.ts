import { queryOptions } from "@tanstack/react-query";

import { api, data } from "../api/client";

export const activeTasks = queryOptions({
  queryKey: ["tasks", "active"],
  queryFn: async ({ signal }) => (await data(api.GET("/api/v1/tasks", { params: { query: { state: "active" } }, signal }))).tasks,
  refetchInterval: 5000,
});

export const allTasks = queryOptions({
  queryKey: ["tasks", "all"],
  queryFn: async ({ signal }) => (await data(api.GET("/api/v1/tasks", { signal }))).tasks,
  refetchInterval: 5000,
});

export const templates = queryOptions({
  queryKey: ["templates"],
  queryFn: async ({ signal }) => (await data(api.GET("/api/v1/templates", { signal }))).templates,
});

export const tasksOfGroup = (id: string) =>
  queryOptions({
    queryKey: ["tasks", "group", id],
    queryFn: async ({ signal }) => (await data(api.GET("/api/v1/groups/{group_id}", { params: { path: { group_id: id } }, signal }))).tasks,
    refetchInterval: 5000,
  });

export const oneTask = (id: string) =>
  queryOptions({
    queryKey: ["tasks", id],
    queryFn: ({ signal }) => data(api.GET("/api/v1/tasks/{task_id}", { params: { path: { task_id: id } }, signal })),
    refetchInterval: 3000,
  });
